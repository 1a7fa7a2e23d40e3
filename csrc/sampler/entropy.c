/* See entropy.h. */
#include "entropy.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/mman.h>
#endif
#include <sys/random.h>

_Static_assert(sizeof(dpf_stream) == DPF_PAGE_SIZE, "random bytes fill one page");

void dpf_wipe(void *memory, size_t size)
{
    memset(memory, 0, size);
    __asm__ volatile("" : : "r"(memory) : "memory"); /* for all it knows, this reads the memory */
}

static void *new_page(void)
{
#ifdef __linux__
    /* A child process finds the page filled with zeros however it was made (fork, clone, vfork). */
    void *page = mmap(NULL, DPF_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);
    if (page == MAP_FAILED)
        return NULL;
#ifdef MADV_WIPEONFORK
    (void)madvise(page, DPF_PAGE_SIZE, MADV_WIPEONFORK);
#endif
#ifdef MADV_DONTDUMP
    (void)madvise(page, DPF_PAGE_SIZE, MADV_DONTDUMP);
#endif
    return page;
#else
    return calloc(1, DPF_PAGE_SIZE);
#endif
}

static void start_afresh(dpf_stream *stream, int (*refill)(dpf_stream *stream), void *owner)
{
    dpf_wipe(stream, sizeof *stream);
    stream->refill = refill;
    stream->owner = owner;
    stream->process_id = (int64_t)getpid();
}

dpf_stream *dpf_stream_new(int (*refill)(dpf_stream *stream), void *owner)
{
    dpf_stream *stream = new_page();
    if (stream != NULL)
        start_afresh(stream, refill, owner);
    return stream;
}

void dpf_stream_free(dpf_stream *stream)
{
    dpf_wipe(stream, sizeof *stream);
#ifdef __linux__
    (void)munmap(stream, sizeof *stream);
#else
    free(stream);
#endif
}

void dpf_erase(dpf_stream *stream)
{
    start_afresh(stream, stream->refill, stream->owner);
}

void dpf_renew_if_forked(dpf_stream *stream, int (*refill)(dpf_stream *stream), void *owner)
{
    if (stream->process_id != (int64_t)getpid()) /* a page that the kernel wiped has 0 here */
        start_afresh(stream, refill, owner);
}

int dpf_constant(const unsigned char *bytes, size_t size)
{
    return memcmp(bytes, bytes + 1, size - 1) == 0;
}

/* ---- the operating system's bytes ----------------------------------------------------------- */

/* Fills the bytes with the calls that os.urandom makes; 0, or -1 where the system has none. */
static int system_bytes(unsigned char *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
#ifdef __linux__
        ssize_t given = getrandom(bytes + done, size - done, 0);
        if (given < 0 && errno == EINTR)
            continue;
        if (given <= 0)
            return -1;
#else
        size_t given = size - done < 256 ? size - done : 256; /* the most that it gives at once */
        if (getentropy(bytes + done, given) != 0)
            return -1;
#endif
        done += (size_t)given;
    }
    return 0;
}

static int refill_from_system(dpf_stream *stream)
{
    if (system_bytes(stream->bytes, DPF_PAGE_BYTES) != 0)
        return -1;
    if (dpf_constant(stream->bytes, DPF_PAGE_BYTES)) {
        stream->status = DPF_NOT_RANDOM;
        return -1;
    }
    stream->position = 0;
    stream->length = DPF_PAGE_BYTES;
    return 0;
}

static __thread dpf_stream *own_stream;
static pthread_key_t at_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int no_key;

static void end_stream(void *stream)
{
    own_stream = NULL;
    dpf_stream_free(stream);
}

static void make_key(void)
{
    no_key = pthread_key_create(&at_end, end_stream);
}

static dpf_stream *own_stream_new(void)
{
    if (pthread_once(&once, make_key) != 0 || no_key)
        return NULL;
    dpf_stream *stream = dpf_stream_new(refill_from_system, NULL);
    if (stream != NULL && pthread_setspecific(at_end, stream) != 0) {
        dpf_stream_free(stream);
        return NULL;
    }
    own_stream = stream;
    return stream;
}

dpf_stream *dpf_thread_stream(void)
{
    dpf_stream *stream = own_stream != NULL ? own_stream : own_stream_new();
    if (stream != NULL)
        dpf_renew_if_forked(stream, refill_from_system, NULL);
    return stream;
}
