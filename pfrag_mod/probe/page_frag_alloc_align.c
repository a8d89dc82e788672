// SPDX-License-Identifier: GPL-2.0
/* From v5.12 on a fragment can be asked for with an alignment. */
#include <linux/skbuff.h>

void *pfrag_probe(struct page_frag_cache *nc);
void *pfrag_probe(struct page_frag_cache *nc)
{
	return page_frag_alloc_align(nc, 1, GFP_KERNEL, 1);
}
