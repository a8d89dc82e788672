/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of pfrag.ko share, and what its own test and benchmark modules
 * may reach for. No part of the public interface.
 */
#ifndef PFRAG_INTERNAL_H
#define PFRAG_INTERNAL_H

#include <linux/types.h>

struct dentry;

#define PFRAG_VERSION "0.1.0"

/**
 * struct pfrag_hooks - failures on demand
 * @nth: the Nth visit to the page allocator from now fails; 0: none does
 * @times: how many visits in a row fail then; %PFRAG_HOOK_FOREVER: all
 * @order0_only: every attempt above order 0 fails
 * @pfmemalloc: a new block counts as one from the memory reserves
 *
 * Stock kernels have no fault injection, so the module brings its own. Consulted
 * where a block is allocated, never on a fast path. @nth and @times belong to
 * pfrag_hook_fails() while @nth is not 0; write @nth last.
 */
struct pfrag_hooks {
	u32 nth;
	u32 times;
	bool order0_only;
	bool pfmemalloc;
};

#define PFRAG_HOOK_FOREVER	(~0U)

extern struct pfrag_hooks pfrag_hooks;

bool pfrag_hook_fails(unsigned int order);

/* debugfs: pfrag/ and what hangs below it. */
void pfrag_debug_init(void);
void pfrag_debug_exit(void);
struct dentry *pfrag_debug_dir(void);

/* Outcomes of benchmark runs; they outlive the module that ran them. */
u32 pfrag_run_number(void);
int pfrag_run_publish(u32 nr, char *text, size_t len);

#endif /* PFRAG_INTERNAL_H */
