/* Pages of random bytes: where they are kept, and the operating system's.  Claim C23. */
#ifndef DPFAST_ENTROPY_H
#define DPFAST_ENTROPY_H

#include "sampler_core.h"

/* An empty page that asks refill() for bytes, and that the kernel wipes in a child process where
 * it can; NULL without memory. */
dpf_stream *dpf_stream_new(int (*refill)(dpf_stream *stream), void *owner);

/* Erases the page and gives its memory back. */
void dpf_stream_free(dpf_stream *stream);

/* Erases what is left, so that the next draw starts from fresh bytes. */
void dpf_erase(dpf_stream *stream);

/* The same, for a page whose bytes are of another process, or wiped. */
void dpf_renew_if_forked(dpf_stream *stream, int (*refill)(dpf_stream *stream), void *owner);

/* memset to zero that the compiler may not remove. */
void dpf_wipe(void *memory, size_t size);

/* Nonzero where all bytes are equal. */
int dpf_constant(const unsigned char *bytes, size_t size);

/* This thread's page of the operating system's bytes, ready to be drawn from; it is erased and
 * given back when the thread ends.  NULL without memory. */
dpf_stream *dpf_thread_stream(void);

#endif
