/* How fast this machine reads memory: the sum of an array, by one thread per contiguous share.
 * Compiled on the spot by bench/limits.py for this very processor; never shipped. */
#include <pthread.h>
#include <stddef.h>

typedef double vector __attribute__((vector_size(64)));

typedef struct {
    const double *from;
    size_t count, passes;
    double sum;
} share;

static void *read_share(void *argument)
{
    share *s = argument;
    const vector *x = (const vector *)s->from;
    vector a = {0}, b = {0}, c = {0}, d = {0};
    for (size_t pass = 0; pass < s->passes; pass++) {
        for (size_t i = 0; i + 4 <= s->count / 8; i += 4) {
            a += x[i];
            b += x[i + 1];
            c += x[i + 2];
            d += x[i + 3];
        }
        __asm__ volatile("" ::: "memory");
    }
    a += b + c + d;
    s->sum = a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
    return NULL;
}

/* `from` must be aligned to 64 bytes. */
double stream_read(const double *from, size_t count, int threads, size_t passes)
{
    enum { MOST = 256 };
    pthread_t thread[MOST];
    share shares[MOST];
    if (threads > MOST)
        threads = MOST;
    size_t each = count / (size_t)threads / 8 * 8;
    for (int i = 0; i < threads; i++) {
        shares[i] = (share){from + (size_t)i * each, each, passes, 0.0};
        if (i && pthread_create(&thread[i], NULL, read_share, &shares[i]) != 0)
            return -1.0;
    }
    read_share(&shares[0]);
    double sum = shares[0].sum;
    for (int i = 1; i < threads; i++) {
        pthread_join(thread[i], NULL);
        sum += shares[i].sum;
    }
    return sum;
}
