/* See pool.h.  One job at a time; a second caller meanwhile works alone on its own thread. */
#define _GNU_SOURCE
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#if defined(__x86_64__)
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE() ((void)0)
#endif

enum {
    MOST_HELPERS = 255,
    SPINS = 2000 /* before sleeping: 20 to 110 microseconds, the processor's pauses differ */
};

static pthread_mutex_t owner = PTHREAD_MUTEX_INITIALIZER; /* held by the caller of a job */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  /* guards everything below */
static pthread_cond_t posted = PTHREAD_COND_INITIALIZER;
static pthread_cond_t finished = PTHREAD_COND_INITIALIZER;
static pthread_t threads_of[MOST_HELPERS];
static int helpers;       /* threads in existence */
static int asleep;        /* of them, those that wait for a job */
static int settled;       /* of them, those that keep_off_the_callers_cpu has seen */
static int fork_handled;  /* the fork handler is registered */
static atomic_int places; /* helpers that may still join the job */
static atomic_int active; /* helpers at work on it */
static int next_slot;
static void (*job)(void *, int);
static void *job_context;

static void *helper(void *unused)
{
    (void)unused;
    for (;;) {
        for (int spin = 0; spin < SPINS && atomic_load_explicit(&places, memory_order_relaxed) <= 0;
             spin++)
            PAUSE();
        pthread_mutex_lock(&lock);
        asleep++;
        while (atomic_load(&places) <= 0)
            pthread_cond_wait(&posted, &lock);
        asleep--;
        atomic_fetch_sub(&places, 1);
        atomic_fetch_add(&active, 1);
        int slot = next_slot++;
        void (*work)(void *, int) = job;
        void *context = job_context;
        pthread_mutex_unlock(&lock);

        work(context, slot);

        pthread_mutex_lock(&lock);
        if (atomic_fetch_sub(&active, 1) == 1)
            pthread_cond_signal(&finished);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

/* A forked child has this thread only: forget the others, whatever they were doing. */
static void after_fork_in_child(void)
{
    pthread_mutex_init(&owner, NULL);
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&posted, NULL);
    pthread_cond_init(&finished, NULL);
    helpers = asleep = settled = 0;
    atomic_store(&places, 0);
    atomic_store(&active, 0);
}

/* Called by the owner.  Helpers never handle signals: those belong to the program's threads. */
static int at_least(int wanted)
{
    sigset_t all, before;
    if (wanted > MOST_HELPERS)
        wanted = MOST_HELPERS;
    if (helpers >= wanted)
        return wanted;
    if (!fork_handled) {
        if (pthread_atfork(NULL, NULL, after_fork_in_child) != 0)
            return 0;
        fork_handled = 1;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (helpers < wanted) {
        if (pthread_create(&threads_of[helpers], NULL, helper, NULL) != 0)
            break;
        pthread_detach(threads_of[helpers]);
#if defined(__linux__)
        pthread_setname_np(threads_of[helpers], "dpfast"); /* for those who look at top -H */
#endif
        helpers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return helpers < wanted ? helpers : wanted;
}

/* Helpers may run where the caller may, but not on the CPU it is on: there the scheduler of some
 * machines (virtual ones, two CPUs) wakes most of them, and leaves them for up to four milliseconds.
 * Those that do not sleep run elsewhere already. */
static void keep_off_the_callers_cpu(void)
{
#if defined(__linux__)
    static cpu_set_t last;
    cpu_set_t others;
    int here = sched_getcpu();
    if (here < 0 || sched_getaffinity(0, sizeof others, &others) != 0)
        return;
    if (CPU_COUNT(&others) > 1)
        CPU_CLR(here, &others);
    if (settled == helpers && CPU_EQUAL(&others, &last))
        return;
    for (int i = 0; i < helpers; i++)
        pthread_setaffinity_np(threads_of[i], sizeof others, &others);
    last = others;
    settled = helpers;
#endif
}

void pool_run(void (*work)(void *context, int slot), void *context, int threads)
{
    int available;
    if (threads <= 1 || pthread_mutex_trylock(&owner) != 0) {
        work(context, 0);
        return;
    }
    available = at_least(threads - 1);
    pthread_mutex_lock(&lock);
    if (asleep > 0 || settled < helpers)
        keep_off_the_callers_cpu();
    job = work;
    job_context = context;
    next_slot = 1;
    atomic_store(&places, available);
    if (available == 1)
        pthread_cond_signal(&posted);
    else if (available > 1)
        pthread_cond_broadcast(&posted);
    pthread_mutex_unlock(&lock);

    work(context, 0);

    pthread_mutex_lock(&lock);
    atomic_store(&places, 0); /* nobody joins any more */
    pthread_mutex_unlock(&lock);
    for (int spin = 0; spin < SPINS && atomic_load(&active) > 0; spin++)
        PAUSE();
    pthread_mutex_lock(&lock);
    while (atomic_load(&active) > 0)
        pthread_cond_wait(&finished, &lock);
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&owner);
}
