package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/remote"
	"github.com/perdure/perdure/internal/cli"
)

// floodScript is the model: a foreground command per message, and an endless one in the background.
const floodScript = `
rules:
  - when: {last_role: notification}
    text: It has ended.
  - when: {user_contains: "endless", not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bash, title: Endless, args: {command: "yes"}}}]
%s
steps: [{text: ok, repeat: true}]
`

const floodRule = "  - when: {user_contains: %q, last_role: user}\n    calls: [{name: bash, args: {command: %q}}]\n"

// floodEnd is the last output of each command.
const floodEnd = "this is the end"

// endlessBytes is the length of the log of the endless command before it is read and the command
// canceled.
const endlessBytes = 1 << 30

// floodRun is one command.
type floodRun struct {
	Name    string  `json:"name"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	Head    bool    `json:"head"`         // the model reads the beginning
	Tail    bool    `json:"tail"`         // the model reads the end
	Result  int     `json:"result_bytes"` // of the result
	Disk    int64   `json:"disk_bytes"`   // growth of the data directory
	Server  int64   `json:"server_growth_bytes"`
}

// floodResult are the results of the section floods.
type floodResult struct {
	Runs       []floodRun `json:"runs"`
	Before     int64      `json:"server_before_bytes"`
	During     int64      `json:"server_during_bytes"`
	Supervisor int64      `json:"supervisor_bytes"` // maximum resident memory of a supervisor
	// the endless log could be read while the command ran, its beginning and its end
	Handle bool `json:"handle"`
	// the part between was reported as rotated away, with the next offset
	Rotated bool    `json:"rotated"`
	Growth  int64   `json:"endless_growth_bytes"`
	Logged  int64   `json:"logged_bytes"` // of the endless command
	Cancel  float64 `json:"cancel_us"`    // from the cancel to its end
}

func (f *floodResult) print(w io.Writer) {
	for i, r := range f.Runs {
		label := "           "
		if i == 0 {
			label = "floods     "
		}
		fmt.Fprintf(w, "%s%-12s %6.2f GB in %5.1f s, head %v, tail %v, result %d bytes, disk %+.1f MiB, server %+.1f MiB (goal 64)\n",
			label, r.Name, float64(r.Bytes)/1e9, r.Seconds, r.Head, r.Tail, r.Result, float64(r.Disk)/mib,
			float64(r.Server)/mib)
	}
	fmt.Fprintf(w, "           server %.1f MiB before, %.1f MiB at most, a supervisor %.1f MiB; endless: read while it ran %v, %.1f MiB logged, rotated %v, server %+.1f MiB, canceled after %.0f ms (goal 1000)\n",
		float64(f.Before)/mib, float64(f.During)/mib, float64(f.Supervisor)/mib, f.Handle, float64(f.Logged)/mib,
		f.Rotated, float64(f.Growth)/mib, f.Cancel/1000)
}

// commands returns the floods, of length bytes and of a third of it.
func commands(length int64) []floodRun {
	return []floodRun{
		{Name: "lines", Bytes: length}, {Name: "one line", Bytes: length / 3}, {Name: "binary", Bytes: length / 3},
		{Name: "bad UTF-8", Bytes: length / 3}, {Name: "ANSI", Bytes: length / 3},
	}
}

// command returns the bash command of a flood.
func (f floodRun) command() string {
	source := map[string]string{
		"lines": "yes 'a line of a flood'", "one line": "tr '\\0' a < /dev/zero", "binary": "cat /dev/urandom",
		"bad UTF-8": `yes $'\xff\xc3\x28\xed\xa0\x80'`, "ANSI": `yes $'\e[31m\e[2J\e]0;title\a\e[1000B'`,
	}[f.Name]
	return fmt.Sprintf("echo this is the beginning; %s | head -c %d; echo; echo %s", source, f.Bytes, floodEnd)
}

func measureFloods(ctx context.Context, o options, at environment) (found result, faults []error, err error) {
	s, dir, progress := at.server, at.dir, at.progress
	eng, err := remote.New(remote.Config{URL: s.url, Token: s.token})
	if err != nil {
		return nil, nil, err
	}
	l := &load{options: o, server: s, eng: eng}
	runs := commands(o.flood)
	var rules strings.Builder
	for _, r := range append(runs, floodRun{Name: "warm", Bytes: 1 << 20}) {
		text := r.command()
		if r.Name == "warm" {
			text = "head -c 1000000 /dev/zero | tr '\\0' b"
		}
		fmt.Fprintf(&rules, floodRule, r.Name, text)
	}
	model := filepath.Join(dir, "floods.yaml")
	if err := os.WriteFile(model, fmt.Appendf(nil, floodScript, rules.String()), 0o600); err != nil {
		return nil, nil, err
	}
	workspace := filepath.Join(dir, "workspace")
	if err := os.Mkdir(workspace, 0o700); err != nil {
		return nil, nil, err
	}
	agent := perdure.Agent{Metadata: map[string]string{cli.WorkspaceKey: workspace}, Name: "floods",
		Model: "scripted:" + model, Tools: []string{"bash", "spawn_background"}}
	f := &floodResult{}
	if _, err := l.flooding(ctx, agent, "warm"); err != nil { // the memory of a first command does not count as growth
		return nil, nil, err
	}
	f.Before = s.residentBytes()
	for _, r := range runs {
		fmt.Fprintf(progress, "load: %s, %.1f GB\n", r.Name, float64(r.Bytes)/1e9)
		if err := f.run(ctx, l, &r, runOf{agent: agent, dir: dir}); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		f.Runs = append(f.Runs, r)
		if !r.Head || !r.Tail {
			faults = append(faults, fmt.Errorf("floods: %s: the model did not read the beginning and the end", r.Name))
		}
	}
	err = f.endless(ctx, l, agent)
	if !f.Handle {
		faults = append(faults, errors.New("floods: the endless log could not be read while the command ran"))
	}
	if err == nil && !f.Rotated {
		faults = append(faults, errors.New("floods: nothing of the endless log was rotated away"))
	}
	return f, faults, err
}

// runOf contains the environment of a flood.
type runOf struct {
	agent perdure.Agent
	dir   string
}

// flooding runs a command in a new session, and returns its call.
func (l *load) flooding(ctx context.Context, agent perdure.Agent, name string) (perdure.Call, error) {
	made, err := l.eng.Sessions().Create(ctx, agent)
	if err == nil {
		err = l.turn(ctx, made.ID, name)
	}
	if err != nil {
		return perdure.Call{}, err
	}
	calls, err := l.eng.Calls().List(ctx, made.ID)
	if err == nil && len(calls) != 1 {
		err = fmt.Errorf("there are %d calls", len(calls))
	}
	if err != nil {
		return perdure.Call{}, err
	}
	return calls[0], nil
}

// run runs a flood and checks what the model reads of it.
func (f *floodResult) run(ctx context.Context, l *load, r *floodRun, in runOf) error {
	watching, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { l.watch(watching) })
	group.Go(func() { f.Supervisor = max(f.Supervisor, l.children(watching)) })
	disk, began := folderBytes(in.dir), time.Now()
	call, err := l.flooding(ctx, in.agent, r.Name)
	r.Seconds = time.Since(began).Seconds()
	stop()
	group.Wait()
	if err != nil {
		return err
	}
	most := l.maxResident.Swap(0)
	f.During, r.Server, r.Disk = max(f.During, most), most-f.Before, folderBytes(in.dir)-disk
	var shown struct {
		Stdout string `json:"stdout"`
	}
	text := call.Result.Result
	if err := perdure.DecodeKnownJSON(text, &shown); err != nil {
		return fmt.Errorf("read the result %.300s: %w", text, err)
	}
	r.Result = len(text)
	r.Head, r.Tail = strings.HasPrefix(shown.Stdout, "this is the beginning\n"),
		strings.HasSuffix(shown.Stdout, floodEnd+"\n")
	return nil
}

// endless runs an endless command, reads its output, and cancels it.
func (f *floodResult) endless(ctx context.Context, l *load, agent perdure.Agent) error {
	made, err := l.eng.Sessions().Create(ctx, agent)
	if err == nil {
		_, err = l.eng.Send(ctx, made.ID, perdure.Text("endless"))
	}
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { l.watch(watching) })
	defer func() {
		stop()
		group.Wait()
		f.Growth = l.maxResident.Swap(0) - f.Before
	}()
	var task perdure.Task
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(patience); task.LogBytes < endlessBytes && time.Now().Before(late); <-tick.C {
		tasks, err := l.eng.Tasks().List(ctx, made.ID)
		if err != nil {
			return err
		}
		if len(tasks) > 0 {
			task = tasks[0]
		}
	}
	log, err := l.eng.Tasks().Log(ctx, task.ID, -100, 100)
	if err != nil {
		return err
	}
	head, err := l.eng.Tasks().Log(ctx, task.ID, 0, 100)
	if err != nil {
		return err
	}
	says := func(log engine.Log) bool {
		return len(log.Chunks) > 0 && strings.Contains(string(log.Chunks[0].Bytes), "y\ny\n")
	}
	f.Handle = says(head) && says(log)
	var gone *perdure.LogRotated
	_, err = l.eng.Tasks().Log(ctx, task.ID, endlessBytes/2, 100)
	f.Rotated = errors.As(err, &gone) && gone.First > gone.Offset
	began := time.Now()
	if _, err := l.eng.Tasks().Cancel(ctx, task.ID, "load", "enough"); err != nil {
		return err
	}
	task, err = l.eng.Tasks().Wait(ctx, task.ID)
	f.Cancel, f.Logged = float64(time.Since(began).Microseconds()), log.End
	if err == nil && task.State != perdure.TaskCanceled {
		err = fmt.Errorf("the endless command is %s: %+v, %s", task.State, task.Error, task.StateDetail)
	}
	return err
}

// children returns the maximum resident memory of a child process of the server, until ctx ends.
func (s *server) children(ctx context.Context) (most int64) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		// no result: the system does not support it
		families, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.cmd.Process.Pid))
		for _, family := range families {
			text, _ := os.ReadFile(family) // the process may be gone
			for child := range strings.FieldsSeq(string(text)) {
				if pid, err := strconv.Atoi(child); err == nil {
					most = max(most, residentBytes(pid))
				}
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return most
		}
	}
}

// folderBytes returns the size of the files below a folder.
func folderBytes(dir string) (n int64) {
	// files that disappear meanwhile are not counted
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}
