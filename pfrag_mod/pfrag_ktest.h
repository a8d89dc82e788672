/* SPDX-License-Identifier: GPL-2.0 */
/*
 * KUnit where the kernel has it, and where it has not, as all stock kernels, a small
 * stand-in: the same words, so that a case reads the same, and the same output, KTAP
 * in the kernel log. A case that fails an expectation goes on, one that fails an
 * assertion returns.
 *
 * pfrag_ktest_module() makes a module of a suite: loading it runs the cases.
 */
#ifndef PFRAG_KTEST_H
#define PFRAG_KTEST_H

#include <linux/kconfig.h>

#if IS_ENABLED(CONFIG_KUNIT)

#include <kunit/test.h>

static inline bool pfrag_ktest_failed(struct kunit *test)
{
	return READ_ONCE(test->status) == KUNIT_FAILURE;
}

#define pfrag_ktest_module(_suite)	kunit_test_suite(_suite)

#else /* no KUnit */

#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/printk.h>
#include <linux/types.h>

struct kunit {
	unsigned int failures;
};

struct kunit_case {
	void (*run_case)(struct kunit *test);
	const char *name;
};

struct kunit_suite {
	const char *name;
	int (*init)(struct kunit *test);
	void (*exit)(struct kunit *test);
	struct kunit_case *test_cases;
};

#define KUNIT_CASE(_fn) { .run_case = _fn, .name = #_fn }

/* Each value is evaluated once: it may be an allocation. */
#define PFRAG_KTEST_COMPARE(_test, _left, _op, _right) ({		\
	typeof(_left) __left = (_left);					\
	typeof(_right) __right = (_right);				\
	bool __pass = __left _op __right;				\
									\
	if (!__pass)							\
		pfrag_ktest_fail(_test, __LINE__,			\
				 #_left " " #_op " " #_right,		\
				 (long long)__left, (long long)__right); \
	__pass;								\
})

#define KUNIT_EXPECT_EQ(_test, _left, _right) \
	((void)PFRAG_KTEST_COMPARE(_test, _left, ==, _right))
#define KUNIT_EXPECT_NE(_test, _left, _right) \
	((void)PFRAG_KTEST_COMPARE(_test, _left, !=, _right))
#define KUNIT_EXPECT_LE(_test, _left, _right) \
	((void)PFRAG_KTEST_COMPARE(_test, _left, <=, _right))
#define KUNIT_EXPECT_PTR_EQ(_test, _left, _right) \
	((void)PFRAG_KTEST_COMPARE(_test, (const void *)(_left), ==, \
				   (const void *)(_right)))
#define KUNIT_EXPECT_PTR_NE(_test, _left, _right) \
	((void)PFRAG_KTEST_COMPARE(_test, (const void *)(_left), !=, \
				   (const void *)(_right)))
#define KUNIT_EXPECT_TRUE(_test, _condition) \
	((void)PFRAG_KTEST_COMPARE(_test, !!(_condition), ==, true))
#define KUNIT_EXPECT_FALSE(_test, _condition) \
	((void)PFRAG_KTEST_COMPARE(_test, !!(_condition), ==, false))
#define KUNIT_ASSERT_NOT_ERR_OR_NULL(_test, _ptr)			\
do {									\
	if (!PFRAG_KTEST_COMPARE(_test, IS_ERR_OR_NULL(_ptr), ==, false)) \
		return;							\
} while (0)

static void pfrag_ktest_fail(struct kunit *test, int line, const char *what,
			     long long left, long long right)
{
	/* A broken loop must not drown the log. */
	if (test->failures++ < 10)
		pr_info("    # line %d: expected %s, got %lld (0x%llx) and %lld (0x%llx)\n",
			line, what, left, left, right, right);
}

/* Run all cases; the number of those that failed. */
static unsigned int pfrag_ktest_run(struct kunit_suite *suite)
{
	struct kunit_case *c;
	unsigned int failed = 0;
	unsigned int nr = 0;

	for (c = suite->test_cases; c->run_case; c++)
		nr++;
	pr_info("KTAP version 1\n");
	pr_info("1..%u\n", nr);

	nr = 0;
	for (c = suite->test_cases; c->run_case; c++) {
		struct kunit test = {};

		if (suite->init(&test))
			test.failures++;
		else
			c->run_case(&test);
		suite->exit(&test);
		if (test.failures)
			failed++;
		pr_info("%sok %u %s.%s\n", test.failures ? "not " : "", ++nr,
			suite->name, c->name);
		cond_resched();
	}
	return failed;
}

static inline bool pfrag_ktest_failed(struct kunit *test)
{
	return test->failures;
}

/* A case that fails makes loading fail. */
#define pfrag_ktest_module(_suite)					\
static int __init pfrag_ktest_init(void)				\
{									\
	return pfrag_ktest_run(&(_suite)) ? -EIO : 0;			\
}									\
									\
static void __exit pfrag_ktest_exit(void)				\
{									\
}									\
									\
module_init(pfrag_ktest_init);						\
module_exit(pfrag_ktest_exit)

#endif /* CONFIG_KUNIT */

#endif /* PFRAG_KTEST_H */
