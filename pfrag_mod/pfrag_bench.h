/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How a contestant joins the benchmark. Any module may bring its own: fill one
 * struct pfrag_bench_ops per workload, register the table, unregister it on exit.
 */
#ifndef PFRAG_BENCH_H
#define PFRAG_BENCH_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/list.h>
#include <linux/types.h>
#include <linux/wait.h>

#define PFRAG_BENCH_NAME_LEN	24
#define PFRAG_BENCH_MAX_THREADS	2

struct module;
struct pfrag_bench_job;
struct pfrag_bench_thread;
struct task_struct;

/**
 * struct pfrag_bench_params - what a run measures; the same for all contestants
 * @workload: name that the contestants of the run share
 * @size: bytes of a fragment
 * @align: bytes, a power of two; 0: the allocator's plain call
 * @depth: fragments alive at the same time
 * @batch: objects in one call
 * @rounds: measured rounds
 * @warmup: rounds that go before them and are not reported
 * @nr: objects in a round
 * @irqoff: interrupts are off during a batch, and only batches are timed
 * @cpus: where the threads run
 * @nr_cpus: how many of @cpus were given
 */
struct pfrag_bench_params {
	char workload[PFRAG_BENCH_NAME_LEN];
	u32 size;
	u32 align;
	u32 depth;
	u32 batch;
	u32 rounds;
	u32 warmup;
	u32 nr;
	u32 irqoff;
	unsigned int cpus[PFRAG_BENCH_MAX_THREADS];
	unsigned int nr_cpus;
};

/**
 * struct pfrag_bench_ops - one contestant in one workload
 * @workload: name of the workload
 * @name: name of the contestant
 * @twin: in-tree contestant that it is compared with, or NULL
 * @per: what is counted: "fragment", "page", "call" or "byte"
 * @owner: module that holds the code
 * @nr_threads: threads of the workload, 1 to %PFRAG_BENCH_MAX_THREADS
 * @no_align: the allocator has no aligned call; with an alignment it is absent
 * @setup: make the state of one job, keep it in @job->priv. Process context.
 *	Returns 0 or a negative errno, with nothing left behind.
 * @cleanup: free all that @setup made and all that the loops left, in every state
 *	that a job can be stopped in. Process context, the threads are gone.
 * @loop: one whole loop for each thread: go on for up to @n objects and return how
 *	many were done. A loop does not sleep, wait or retry: when it cannot go on
 *	it says why with pfrag_bench_stalls() and returns. Interrupts may be off. A
 *	whole loop and not a
 *	call: an indirect call for each object would cost as much as an allocation.
 */
struct pfrag_bench_ops {
	const char *workload;
	const char *name;
	const char *twin;
	const char *per;
	struct module *owner;
	unsigned int nr_threads;
	bool no_align;

	int (*setup)(struct pfrag_bench_job *job);
	void (*cleanup)(struct pfrag_bench_job *job);

	u64 (*loop[PFRAG_BENCH_MAX_THREADS])(struct pfrag_bench_thread *thread,
					     u64 n);

	/* private: */
	struct list_head list;
};

/* Why a loop did less than it was asked for. */
enum pfrag_bench_stall {
	PFRAG_BENCH_STALL_PEER,		/* the other thread must go on first */
	PFRAG_BENCH_STALL_MEMORY,	/* an allocation failed */
};

/**
 * struct pfrag_bench_thread - one thread of a job
 * @job: the job
 * @id: which thread of the workload it is
 */
struct pfrag_bench_thread {
	struct pfrag_bench_job *job;
	unsigned int id;

	/* private: written by the thread itself; `done` is read by the others
	 * while it runs, the rest once it has finished.
	 */
	enum pfrag_bench_stall stall;
	struct task_struct *task;
	u64 done;
	u64 failed_allocs;
	u64 start_ns;
	u64 end_ns;
	u64 start_cycles;
	u64 end_cycles;
	u64 batch_cycles;
	int error;
};

/**
 * struct pfrag_bench_job - one contestant in one round
 * @params: of the run
 * @ops: the contestant
 * @priv: the contestant's
 */
struct pfrag_bench_job {
	const struct pfrag_bench_params *params;
	const struct pfrag_bench_ops *ops;
	void *priv;

	/* private: the harness's */
	struct pfrag_bench_thread threads[PFRAG_BENCH_MAX_THREADS];
	struct completion go;
	wait_queue_head_t wait;
	atomic_t running;
	bool stop;
};

static inline void pfrag_bench_stalls(struct pfrag_bench_thread *thread,
				      enum pfrag_bench_stall why)
{
	thread->stall = why;
}

/**
 * pfrag_bench_step_fails() - must this step of a job's set-up fail?
 *
 * The harness asks before each step of its own, and a contestant's @setup asks
 * before each of its own, so that a test can reach every error path with the
 * module parameter fail_step.
 *
 * Context: Process.
 * Return: true if the step is the one that must fail.
 */
bool pfrag_bench_step_fails(void);

/**
 * pfrag_bench_register() - let contestants join
 * @ops: table of them
 * @nr: how many
 *
 * Context: Process, may sleep.
 * Return: 0; -EINVAL if a table lacks something; -EEXIST if its workload already
 * has a contestant of that name. All of them join or none.
 */
int pfrag_bench_register(struct pfrag_bench_ops *ops, unsigned int nr);

/**
 * pfrag_bench_unregister() - let contestants leave
 * @ops: table that was registered
 * @nr: how many
 *
 * A run that uses them holds a reference on @owner, so none is under way when
 * the owner's exit function calls this.
 *
 * Context: Process, may sleep.
 */
void pfrag_bench_unregister(struct pfrag_bench_ops *ops, unsigned int nr);

#endif /* PFRAG_BENCH_H */
