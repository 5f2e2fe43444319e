package taskrun

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/secretargs"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Processes returns what runs on this machine for a task. Processes at another home are not looked
// at: the answer names the home.
func (ts *Tasks) Processes(ctx context.Context, id perdure.TaskID) (perdure.TaskProcesses, error) {
	var task perdure.Task
	var row perdure.Call
	shown := perdure.TaskProcesses{State: perdure.ProcessNone}
	err := ts.core.Store.View(ctx, func(r store.Reader) (err error) {
		if task, err = r.Tasks().Get("", id); err != nil || task.Links.ChildSession != "" {
			return err
		}
		row, err = r.Calls().Get(task.LedgerKey())
		if row.Key = task.LedgerKey(); err != nil && !errors.Is(err, perdure.NotFound) {
			return err // without a row nothing was claimed, and nothing has started
		}
		if ts.core.RemainsAt(r, task.Home) != perdure.RemainsNone {
			shown.State = perdure.ProcessElsewhere
		}
		if h, err := r.Workers().Home(task.Home); err == nil {
			shown.Host = h.Host
		}
		return nil
	})
	if err != nil {
		return shown, fmt.Errorf("look at the processes of task %s: %w", id, err)
	}
	if shown, err = ts.processesOf(ctx, task, row, shown); err != nil {
		return shown, fmt.Errorf("look at the processes of task %s: %w", id, err)
	}
	shown.Task, shown.Tool, shown.Kind, shown.At = task.ID, task.Tool, task.Kind, time.Now().UTC()
	if shown.Processes == nil {
		shown.Processes = []perdure.Process{}
	}
	if shown.Files == nil {
		shown.Files = []perdure.OutputFile{}
	}
	return shown, nil
}

// processesOf asks the tool of a task, unless its processes are elsewhere.
func (ts *Tasks) processesOf(ctx context.Context, task perdure.Task, row perdure.Call,
	shown perdure.TaskProcesses) (perdure.TaskProcesses, error) {
	if task.Links.ChildSession != "" || task.Kind == perdure.KindMonitor {
		return shown, nil
	}
	target, known := ts.toolset.Find(task.Tool)
	supervised, starts := target.(tool.Supervised)
	switch {
	case shown.State == perdure.ProcessElsewhere:
		shown.Execution, shown.Home = task.Executions, task.Home
		return shown, nil
	case !known:
		return shown, fmt.Errorf("%w: this process does not have the tool %s, which knows them", perdure.Unavailable, task.Tool)
	case !starts:
		return shown, nil
	}
	host := shown.Host
	err := ts.core.Guarded("processes", func() (err error) {
		shown, err = supervised.Processes(ctx, core.ToolCall(row, task.DeadlineAt))
		return err
	})
	shown.Execution, shown.Home, shown.Host = task.Executions, task.Home, host
	ts.maskProcesses(&shown, row, target)
	return shown, err
}

// maskProcesses removes the secrets of the session and of the call from what people read (RD5,
// RD6). While a secret is not known, no command line is shown (RD4).
func (ts *Tasks) maskProcesses(shown *perdure.TaskProcesses, row perdure.Call, target tool.Tool) {
	known := ts.secrets.Known(row.Key.Session)
	_, own := ts.secrets.Vault.Fill(row.Key, target.Spec().Parameters, row.Args)
	v := secretargs.New(known, own)
	mask := func(text string) string {
		if known != nil && known.Complete() != nil {
			return redact.Unprintable
		}
		return redact.Document(v.Mask(text))
	}
	for i, p := range shown.Processes {
		shown.Processes[i].Command = strings.Join(strings.Fields(mask(p.Command)), " ")
		shown.Processes[i].Directory = v.Mask(p.Directory)
	}
	if shown.End != nil && shown.End.Error != "" {
		shown.End.Error = mask(shown.End.Error)
	}
}
