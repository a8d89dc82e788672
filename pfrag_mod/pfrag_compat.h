/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The one file that knows kernels differ. Written for the newest: each entry
 * gives older kernels what they lack, under a pfrag_compat_ name where the
 * kernel's own would clash. PFRAG_HAVE_* are the answers of probe/NAME.c.
 *
 * docs/compat.md is the table of them.
 */
#ifndef PFRAG_COMPAT_H
#define PFRAG_COMPAT_H

#include <linux/export.h>
#include <linux/gfp.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/skbuff.h>
#include <linux/string.h>
#include <linux/timex.h>

#include "pfrag_features.h"

/*
 * Before Linux commit cdd30ebb1b9f ("module: Convert symbol namespace to string
 * literal") (in v6.13), the namespace is a bare token.
 */
#ifdef PFRAG_HAVE_BARE_NAMESPACE
#define pfrag_export_symbol(sym)	EXPORT_SYMBOL_NS_GPL(sym, PFRAG)
#define pfrag_import_namespace()	MODULE_IMPORT_NS(PFRAG)
#else
#define pfrag_export_symbol(sym)	EXPORT_SYMBOL_NS_GPL(sym, "PFRAG")
#define pfrag_import_namespace()	MODULE_IMPORT_NS("PFRAG")
#endif

/*
 * Free a page whose count has reached 0, as the kernel's own put_page() goes on.
 * Before Linux commit b620f63358cd ("mm: Add folio_put()") (in v5.16), there are
 * no folios.
 */
static inline void pfrag_compat_free_zero_page(struct page *page)
{
#ifdef PFRAG_HAVE_FOLIO_PUT
	__folio_put(page_folio(page));
#else
	__put_page(page);
#endif
}

/*
 * The kernel's own fragment cache, as the benchmark calls it. Before Linux commit
 * b358e2122b9d ("mm: page_frag: Introduce page_frag_alloc_align()") (in v5.12),
 * it knows no alignment; before Linux commit 411c5f36805c ("mm/page_alloc: modify
 * page_frag_alloc_align() to accept align as an argument") (in v6.9), it takes the
 * mask -align.
 */
#ifdef PFRAG_HAVE_PAGE_FRAG_ALLOC_ALIGN
#define PFRAG_COMPAT_PAGE_FRAG_ALIGNS	true
#ifdef PFRAG_HAVE_PAGE_FRAG_ALIGN_VALUE
#define pfrag_compat_page_frag_alloc_align(nc, size, gfp, align) \
	page_frag_alloc_align(nc, size, gfp, align)
#else
#define pfrag_compat_page_frag_alloc_align(nc, size, gfp, align) \
	page_frag_alloc_align(nc, size, gfp, -(align))
#endif
#else
#define PFRAG_COMPAT_PAGE_FRAG_ALIGNS	false
#define pfrag_compat_page_frag_alloc_align(nc, size, gfp, align)	NULL
#endif

/*
 * Before Linux commit a0727489ac22 ("net: introduce page_frag_cache_drain()") (in
 * v6.9), each user drains by hand. All these kernels keep the block's address in
 * va and the references in pagecnt_bias.
 */
static inline void pfrag_compat_page_frag_drain(struct page_frag_cache *nc)
{
#ifdef PFRAG_HAVE_PAGE_FRAG_CACHE_DRAIN
	page_frag_cache_drain(nc);
#else
	if (nc->va)
		__page_frag_cache_drain(virt_to_head_page(nc->va),
					nc->pagecnt_bias);
	memset(nc, 0, sizeof(*nc));
#endif
}

/*
 * A counter for short stretches on one CPU. User-Mode Linux has no get_cycles(), and
 * its clock steps by 256 ns; the instruction works there as anywhere.
 */
static inline u64 pfrag_compat_cycles(void)
{
#ifdef CONFIG_X86_64
	u32 low, high;

	asm volatile("lfence; rdtsc; lfence"
		     : "=a" (low), "=d" (high) : : "memory");
	return (u64)high << 32 | low;
#else
	return get_cycles();
#endif
}

#endif /* PFRAG_COMPAT_H */
