// Package taskprocess shows the processes of tasks.
//
// It may import the root, store and tool, of internal: secretargs, and of internal/effect: core,
// secrets and toolset.
//
// The one thing to know: a command line can hold any secret. So each text is masked here, whatever
// the tool did, and while a secret is not known, no text is shown.
package taskprocess

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/toolset"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/secretargs"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Processes shows the processes of tasks. It is safe for concurrent use.
type Processes struct {
	core    *core.Core
	toolset *toolset.Toolset
	secrets *secrets.Secrets
}

// New returns the processes of a configuration.
func New(c *core.Core, tools *toolset.Toolset, sec *secrets.Secrets) *Processes {
	return &Processes{core: c, toolset: tools, secrets: sec}
}

// execution is the last execution of a task, as the store has it.
type execution struct {
	task      perdure.Task
	row       perdure.Call // only with its key if the task was never claimed
	host      string       // of the last worker at the home of the task; empty: not known
	elsewhere bool         // its remains are at another home
	secrets   bool         // its session has secrets
}

// Of returns what runs on this machine for a task. Processes at another home are not looked at: the
// answer names the home.
func (ps *Processes) Of(ctx context.Context, id perdure.TaskID) (perdure.TaskProcesses, error) {
	shown := perdure.TaskProcesses{State: perdure.ProcessNone}
	e, err := store.Read(ctx, ps.core.Store, func(r store.Reader) (execution, error) { return ps.read(r, id) })
	if err == nil && e.task.Links.ChildSession == "" && e.task.Kind != perdure.KindMonitor {
		shown, err = ps.look(ctx, e)
	}
	if err != nil {
		return perdure.TaskProcesses{}, fmt.Errorf("look at the processes of task %s: %w", id, err)
	}
	shown.Task, shown.Tool, shown.Kind, shown.At = e.task.ID, e.task.Tool, e.task.Kind, time.Now().UTC()
	if shown.Processes == nil {
		shown.Processes = []perdure.Process{}
	}
	if shown.Files == nil {
		shown.Files = []perdure.OutputFile{}
	}
	return shown, nil
}

func (ps *Processes) read(r store.Reader, id perdure.TaskID) (e execution, err error) {
	if e.task, err = r.Tasks().Get("", id); err != nil {
		return e, err
	}
	if e.row, err = r.Calls().Get(e.task.LedgerKey()); err != nil && !errors.Is(err, perdure.NotFound) {
		return e, err
	}
	e.row.Key = e.task.LedgerKey() // without a row nothing was claimed, and nothing has started
	of := store.SecretFilter{Session: e.task.Session, Limit: 1, WithoutValue: true}
	found, err := r.Secrets().List(of)
	if err != nil {
		return e, err
	}
	e.secrets = len(found) > 0
	e.elsewhere = ps.core.RemainsAt(r, e.task.Home) != perdure.RemainsNone
	if e.task.Home == "" {
		return e, nil
	}
	home, err := r.Workers().Home(e.task.Home)
	if e.host = home.Host; errors.Is(err, perdure.NotFound) {
		err = nil // it has no worker yet, or none any more
	}
	return e, err
}

// look asks the tool of a task, unless the processes are elsewhere.
func (ps *Processes) look(ctx context.Context, e execution) (shown perdure.TaskProcesses, err error) {
	shown.State = perdure.ProcessNone
	if e.elsewhere {
		shown.State, shown.Execution = perdure.ProcessElsewhere, e.task.Executions
		shown.Home, shown.Host = e.task.Home, e.host
		return shown, nil
	}
	target, known := ps.toolset.Find(e.task.Tool)
	supervised, ok := target.(tool.Supervised)
	switch {
	case !known && e.task.Home != "":
		return shown, fmt.Errorf("%w: this process does not have the tool %s, which alone can find them", perdure.Unavailable, e.task.Tool)
	case !ok:
		return shown, nil
	}
	err = ps.core.Guarded("processes", func() (err error) {
		shown, err = supervised.Processes(ctx, core.ToolCall(e.row, e.task.DeadlineAt))
		return err
	})
	if err != nil {
		return shown, err
	}
	shown.Execution, shown.Home, shown.Host = e.row.Executions, e.task.Home, e.host
	ps.mask(&shown, e, target)
	return shown, nil
}

// mask removes the secrets of the session and of the call from what people read (RD5, RD6). While
// one of them is not known, no text is shown (RD4): the store does not answer, its key is missing,
// this process reads no keys, or the process that held a secret argument of the call is gone.
func (ps *Processes) mask(shown *perdure.TaskProcesses, e execution, target tool.Tool) {
	known, schema := ps.secrets.Known(e.row.Key.Session), target.Spec().Parameters
	args, own := ps.secrets.Vault.Fill(e.row.Key, schema, e.row.Args)
	masker := secretargs.New(known, own)
	hidden := known == nil && e.secrets || known != nil && known.Complete() != nil ||
		secretargs.CheckLost(schema, args) != nil
	line := func(text string) string {
		switch {
		case text == "":
			return ""
		case hidden:
			return redact.Unprintable
		}
		return strings.Join(strings.Fields(redact.Document(masker.Mask(text))), " ")
	}
	for i := range shown.Processes {
		p := &shown.Processes[i]
		p.Command, p.Directory = line(p.Command), line(p.Directory)
	}
	if end := shown.End; end != nil {
		end.Error, end.Limit = line(end.Error), line(end.Limit)
	}
}
