/* A pool of native threads: created on first use, reset in a forked child, asleep when idle. */
#ifndef DPFAST_POOL_H
#define DPFAST_POOL_H

/* Call work(context, slot) on the calling thread (slot 0) and on up to threads - 1 others, each
 * with its own slot < threads, and return when all that started have finished.  `work` must take
 * its share from a common counter: helpers may join late or never (another caller has the pool,
 * a thread could not be created), and slot 0 alone must then do everything. */
void pool_run(void (*work)(void *context, int slot), void *context, int threads);

#endif
