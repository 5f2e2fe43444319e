package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/shell"
)

// printTime is a command that first writes the time, in microseconds since 1970. It needs bash 5.
const printTime = `echo "${EPOCHREALTIME/[^0-9]/}" > `

// measureSupervised measures a background command under its supervisor: from the request to the
// first action of the command.
func measureSupervised(ctx context.Context, l *runner) error {
	dir, err := l.folder("commands")
	if err != nil {
		return err
	}
	bash, err := shell.New(shell.Config{RunsDir: filepath.Join(dir, "runs"), Dir: dir,
		Env: []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}})
	if err != nil {
		l.report.missing("spawn_supervised", err)
		return nil
	}
	runs := l.count(60, 2)
	clock := newTaskClock(runs)
	listening := &tools{target: "bash", asked: func(m moment) { clock.asked <- m }}
	next := 0
	listening.args = func(int) []byte {
		next++ // turns are sequential
		return []byte(`{"command":` + quoted(printTime+"started_"+strconv.Itoa(next)) + `}`)
	}
	w, err := l.world(ctx, engineRigConfig{Tools: listening, More: []tool.Tool{bash}})
	if err != nil {
		return err
	}
	defer w.close()
	id, err := w.session(ctx, agent(true))
	if err != nil {
		return err
	}
	var s sample
	for run := range runs {
		if err := w.waitIdle(ctx, id, order{tool: "spawn", all: 1, step: 1}); err != nil {
			return err
		}
		started, err := whenStarted(filepath.Join(dir, "started_"+strconv.Itoa(run+1)))
		if err != nil {
			return err
		}
		s = append(s, started.Sub((<-clock.asked).at.Round(0))) // wall time, since the command has no monotonic clock
	}
	l.report.latencies("spawn_supervised", s)
	return nil
}

// whenStarted reads the time that printTime wrote.
func whenStarted(path string) (time.Time, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return time.Time{}, fmt.Errorf("the command did not start: %w", err)
	}
	us, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("the command wrote no time, is bash older than 5? %w", err)
	}
	return time.UnixMicro(us), nil
}

// quoted returns a string as JSON.
func quoted(text string) string {
	body, _ := json.Marshal(text) // marshalling a string never fails
	return string(body)
}

// treeGrace is the grace period of a process tree, which ignores it.
const treeGrace = 50 * time.Millisecond

// treeLook is how often the existence of a process tree is checked.
const treeLook = 500 * time.Microsecond

// stubborn is a command of three processes and their shell, all of which ignore SIGTERM. Each
// writes its pid to the file that follows.
const stubborn = `trap '' TERM; member() { trap '' TERM; echo $BASHPID >> "$1"; exec sleep 600; }; all() { echo $BASHPID >> "$1"; member "$1" | member "$1" | member "$1"; }; all `

// stubbornProcesses is the number of pids in the file once all processes run.
const stubbornProcesses = 4

// measureTrees measures the time from a cancel until nothing is left of a command that ignores
// SIGTERM. The floor is the same command without Perdure: SIGTERM, a timer of the grace period,
// SIGKILL.
func measureTrees(ctx context.Context, l *runner) error {
	dir, err := l.folder("trees")
	if err != nil {
		return err
	}
	bash, err := shell.New(shell.Config{RunsDir: filepath.Join(dir, "runs"), Dir: dir, Env: treeEnv(),
		Grace: treeGrace})
	if err != nil {
		l.report.missing("floor_tree_gone", err)
		l.report.missing("tree_gone", err)
		return nil
	}
	var next string // file of the next command; turns are sequential
	starting := &tools{target: "bash",
		args: func(int) []byte { return []byte(`{"command":` + quoted(stubborn+next) + `}`) }}
	w, err := l.world(ctx, engineRigConfig{Tools: starting, More: []tool.Tool{bash}})
	if err != nil {
		return err
	}
	defer w.close()
	var bare, ours sample
	for i := range l.count(100, 2) {
		if i%2 == 0 {
			took, err := bareTree(ctx, dir, filepath.Join(dir, "floor_"+strconv.Itoa(i)))
			if err != nil {
				return fmt.Errorf("floor: %w", err)
			}
			bare = append(bare, took)
		}
		next = filepath.Join(dir, "tree_"+strconv.Itoa(i))
		took, err := w.tree(ctx, next)
		if err != nil {
			return err
		}
		ours = append(ours, took)
	}
	l.report.latencies("floor_tree_gone", bare)
	l.report.latencies("tree_gone", ours)
	l.report.ratio("tree_gone", "floor_tree_gone", "p50_us", "floor_p50_ratio")
	l.report.ratio("tree_gone", "floor_tree_gone", "p99_us", "floor_p99_ratio")
	l.report.atMost("tree_gone", "p99_us", goal{sqlite: 100_000})
	return nil
}

func treeEnv() []string { return []string{"PATH=/usr/bin:/bin", "LC_ALL=C"} }

// tree runs the command in the background of a new session and cancels it once all its processes
// run.
func (w *engineRig) tree(ctx context.Context, pids string) (time.Duration, error) {
	id, err := w.session(ctx, agent(true))
	if err != nil {
		return 0, err
	}
	if err := w.turn(ctx, id, order{tool: "spawn", all: 1, step: 1}); err != nil {
		return 0, err
	}
	members, err := treeOf(ctx, pids)
	if err != nil {
		return 0, err
	}
	tasks, err := w.Tasks().List(ctx, id)
	if err != nil || len(tasks) != 1 {
		return 0, fmt.Errorf("%d tasks, want 1: %w", len(tasks), err)
	}
	began := time.Now()
	if _, err := w.Tasks().Cancel(ctx, tasks[0].ID, "bench", "it is measured"); err != nil {
		return 0, err
	}
	if err := waitGone(ctx, members); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if _, err := w.Tasks().Wait(ctx, tasks[0].ID); err != nil {
		return 0, err
	}
	return took, nil
}

// bareTree runs the command as a process group and ends it.
func bareTree(ctx context.Context, dir, pids string) (took time.Duration, err error) {
	cmd := exec.Command("/bin/bash", "-c", "--", stubborn+pids)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, treeEnv(), groupOfItsOwn()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() {
		_ = killGroup(cmd.Process.Pid, syscall.SIGKILL) // also after an error
		_ = cmd.Wait()                                  // the error only says that it was killed
	}()
	members, err := treeOf(ctx, pids)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := killGroup(cmd.Process.Pid, syscall.SIGTERM); err != nil {
		return 0, err
	}
	select {
	case <-time.After(treeGrace):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if err := killGroup(cmd.Process.Pid, syscall.SIGKILL); err != nil {
		return 0, err
	}
	err = waitGone(ctx, members)
	return time.Since(began), err
}

// treeOf returns the pids of a command once all its processes run and ignore SIGTERM.
func treeOf(ctx context.Context, path string) (members []int, err error) {
	err = pollUntil(ctx, "the command did not start", func() (bool, error) {
		text, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			return false, err
		}
		lines := strings.Fields(string(text))
		if len(lines) < stubbornProcesses {
			return false, nil
		}
		for _, line := range lines {
			pid, err := strconv.Atoi(line)
			if err != nil {
				return false, fmt.Errorf("read a pid: %w", err)
			}
			members = append(members, pid)
		}
		return true, nil
	})
	return members, err
}

// waitGone returns when none of the processes runs.
func waitGone(ctx context.Context, members []int) error {
	return pollUntil(ctx, "the command did not end", func() (bool, error) {
		for len(members) > 0 && !runs(members[0]) {
			members = members[1:]
		}
		return len(members) == 0, nil
	})
}

// pollUntil polls until so returns true, at most a minute.
func pollUntil(ctx context.Context, otherwise string, so func() (bool, error)) error {
	tick := time.NewTicker(treeLook)
	defer tick.Stop()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		if ok, err := so(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("%s within a minute", otherwise)
}
