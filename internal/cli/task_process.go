package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
)

type taskProcess struct {
	Task string `arg:"" help:"Id, unique id prefix, or title."`
	outputFlags
}

// Run shows what runs on a machine for a task.
func (c *taskProcess) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		t, err := a.task(ctx, eng, c.Task)
		if err != nil {
			return err
		}
		p, err := eng.Tasks().Processes(ctx, t.ID)
		if err != nil {
			return err
		}
		return c.show(ctx, a, outputObject{string(t.ID), p, func() { taskText{a}.printProcesses(p, a.now()) }})
	})
}

// printProcesses prints the processes of a task on a terminal.
func (a taskText) printProcesses(p perdure.TaskProcesses, now clock) {
	memory := int64(0)
	for _, one := range p.Processes {
		memory += one.Memory
	}
	a.fields(
		field{"task", cell{string(p.Task), bold}},
		field{"tool", cell{text: p.Tool}},
		field{"state", cell{text: processState(p)}},
		field{"execution", cell{text: positive(p.Execution)}},
		field{"home", cell{text: strings.TrimSpace(string(p.Home) + "  " + p.Host)}},
		field{"supervisor", cell{text: supervisorLine(p.Supervisor, now)}},
		field{"sandbox", cell{text: sandboxLine(p)}},
		field{"network", cell{text: networkLine(p)}},
		field{"end", cell{text: processEnd(p.End, now)}},
		field{"cpu", cell{text: cpuTime(p.CPUMS)}},
		field{"memory", cell{text: memoryText(memory)}},
		field{"peak", cell{text: peakLine(p.End)}},
		field{"files", cell{text: outputFiles(p.Files)}},
	)
	if len(p.Processes) == 0 {
		return
	}
	fmt.Fprintln(a.out)
	depth, rows := map[int]int{}, [][]cell{}
	for _, one := range p.Processes {
		if above, ok := depth[one.ParentPID]; ok {
			depth[one.PID] = above + 1
		} else {
			depth[one.PID] = 0
		}
		rows = append(rows, []cell{
			{fmt.Sprint(one.PID), bold}, {text: fmt.Sprint(one.Group)}, {text: one.State}, {text: now.age(one.StartedAt)},
			{text: cpuTime(one.CPUMS)}, {text: memoryText(one.Memory)}, {text: one.Directory},
			{text: strings.Repeat("· ", min(depth[one.PID], 10)) + one.Command},
		})
	}
	a.table([]string{"PID", "GROUP", "STATE", "AGE", "CPU", "MEMORY", "DIRECTORY", "COMMAND"}, rows)
	if more := p.Count - len(p.Processes); more > 0 {
		a.message("%s more processes are not shown", fmt.Sprint(more))
	}
}

// processState says in a sentence what is known of the processes.
func processState(p perdure.TaskProcesses) string {
	switch p.State {
	case perdure.ProcessNone:
		return "no process of its own: the tool works inside the server, or over the network (" + string(p.Kind) + ")"
	case perdure.ProcessNotStarted:
		return "no process: the command has not started, or its files have been removed"
	case perdure.ProcessLost:
		return "lost: the supervisor was killed and did not record how the command ended"
	case perdure.ProcessElsewhere:
		return "elsewhere: only the server with the home " + string(p.Home) + " can see the processes"
	}
	return string(p.State)
}

func supervisorLine(s *perdure.Supervisor, now clock) string {
	if s == nil {
		return ""
	}
	line := fmt.Sprintf("pid %d, has ended", s.PID)
	if s.IsAlive {
		line = fmt.Sprintf("pid %d, holds the command", s.PID)
	}
	return line + ", started " + moment(s.StartedAt, now)
}

func sandboxLine(p perdure.TaskProcesses) string {
	if p.Sandbox == nil {
		return ""
	}
	return strings.Join(append([]string{p.Sandbox.Profile}, p.Sandbox.Enforced...), "\n")
}

func networkLine(p perdure.TaskProcesses) string {
	switch {
	case p.Supervisor == nil:
		return ""
	case p.Sandbox != nil && !p.Sandbox.HasNetwork:
		return "closed by the sandbox"
	}
	return "open: no egress rule restricts a command"
}

func processEnd(e *perdure.ProcessEnd, now clock) string {
	if e == nil {
		return ""
	}
	line := fmt.Sprintf("exit code %d", e.Code)
	if e.Signal != 0 {
		line = fmt.Sprintf("signal %d, exit code %d", e.Signal, e.Code)
	}
	if e.TimedOut {
		line += ", after its time limit"
	}
	if e.Stopped {
		line += ", after a stop was requested"
	}
	line += "  " + moment(e.EndedAt, now)
	for _, why := range []string{e.Error, e.Limit} {
		if why != "" {
			line += "\n" + why
		}
	}
	if e.Left > 0 {
		line += "\n" + fmt.Sprint(e.Left) + " of its processes were left running, and were ended then"
	}
	return line
}

func peakLine(e *perdure.ProcessEnd) string {
	if e == nil || e.Peak == 0 {
		return ""
	}
	return memoryText(e.Peak) + " in one process"
}

func outputFiles(files []perdure.OutputFile) string {
	var lines []string
	for _, f := range files {
		lines = append(lines, f.Path+"  "+count(f.Bytes, "byte"))
	}
	return strings.Join(lines, "\n")
}

// cpuTime writes processor time; empty: none.
func cpuTime(ms int64) string {
	if ms == 0 {
		return ""
	}
	return span(time.Duration(ms) * time.Millisecond)
}

// memoryText writes an amount of memory; empty: none.
func memoryText(bytes int64) string {
	switch {
	case bytes <= 0:
		return ""
	case bytes < 1<<20:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

// positive writes a number; empty: zero.
func positive(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
