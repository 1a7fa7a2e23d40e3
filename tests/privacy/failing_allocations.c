/* Loaded before all else: one allocation that a kernel of dpfast asks for fails, the rest of the process's
 * allocations do not.  Whose it is says the address that the call returns to. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_memalign(size_t, size_t);

static struct { const char *from, *to; } kernels[64];
static int known;
static long seen, failing; /* calls of kernels so far, and the number of the one that fails; 0: none */

static int note(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    if (!strstr(info->dlpi_name, "/dpfast/kernels/"))
        return 0;
    for (int k = 0; k < info->dlpi_phnum && known < 64; k++)
        if (info->dlpi_phdr[k].p_type == PT_LOAD) {
            kernels[known].from = (const char *)info->dlpi_addr + info->dlpi_phdr[k].p_vaddr;
            kernels[known].to = kernels[known].from + info->dlpi_phdr[k].p_memsz;
            known++;
        }
    return 0;
}

/* Fail this one from now on, and return how many were asked for since the last call. */
long dpfast_fail(long number)
{
    long before = __atomic_exchange_n(&seen, 0, __ATOMIC_SEQ_CST);
    known = 0;
    dl_iterate_phdr(note, NULL);
    __atomic_store_n(&failing, number, __ATOMIC_SEQ_CST);
    return before;
}

static int fails(const void *caller)
{
    const char *at = caller;
    for (int k = 0; k < known; k++)
        if (at >= kernels[k].from && at < kernels[k].to)
            return __atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST) == failing;
    return 0;
}
#define FAILS fails(__builtin_return_address(0))

void *malloc(size_t size)
{
    return FAILS ? (errno = ENOMEM, NULL) : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return FAILS ? (errno = ENOMEM, NULL) : __libc_calloc(count, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    void *found = FAILS ? NULL : __libc_memalign(alignment, size);
    if (!found)
        return ENOMEM;
    *memory = found;
    return 0;
}

void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
    if (FAILS)
        return errno = ENOMEM, MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, size, protection, flags, file, offset);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *with)
{
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (FAILS)
        return EAGAIN;
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    return next(thread, attributes, run, with);
}
