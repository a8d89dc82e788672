// SPDX-License-Identifier: GPL-2.0
/* From v6.9 on page_frag_alloc_align() takes the alignment, not its negative. */
#include <linux/skbuff.h>

void *pfrag_probe(struct page_frag_cache *nc);
void *pfrag_probe(struct page_frag_cache *nc)
{
	return __page_frag_alloc_align(nc, 1, GFP_KERNEL, ~0u);
}
