package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
)

type callCommand struct {
	List    callList    `cmd:"" aliases:"ls" help:"List the calls of a session, newest first."`
	Show    callShow    `cmd:"" help:"Show a call: its arguments, executions and outcome."`
	Resolve taskResolve `cmd:"" help:"Record the outcome of an unknown call (same as task resolve)."`
}

type callList struct {
	Session string   `arg:"" help:"Session: id, unique id prefix, title, or last."`
	State   []string `help:"Only calls in these states: running, settled, unknown." placeholder:"STATE"`
	listFlags
}

// Run lists calls. Arguments are shown with secrets masked (RD6).
func (c *callList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		all, err := eng.Calls().List(ctx, s.ID)
		if err != nil {
			return fmt.Errorf("list calls of %s: %w", s.ID, err)
		}
		var chosen []callView
		for _, call := range all {
			if wantedState(string(call.State), c.State) {
				if len(call.Args) > 0 {
					call.Args = redact.JSON(call.Args)
				}
				chosen = append(chosen, callViewOf(call))
			}
		}
		chosen, err = newestWithin(c.listFlags, a.now().Time, chosen, func(v callView) time.Time { return v.ClaimedAt })
		if err != nil {
			return err
		}
		return calls(a.now()).print(ctx, a, c.outputFlags, chosen)
	})
}

func wantedState(state string, states []string) bool {
	return len(states) == 0 || slices.Contains(states, state)
}

// callView is a call for -o json. A server does not report its workers, so unknown fields are
// omitted.
type callView struct {
	perdure.Call
	Worker perdure.WorkerID `json:"worker_id,omitempty"`
	Epoch  int64            `json:"epoch,omitempty"`
}

func callViewOf(c perdure.Call) callView { return callView{c, c.Worker, c.Epoch} }

// calls describes how calls are listed.
func calls(now clock) outputList[callView] {
	return outputList[callView]{
		noun: "calls",
		head: []string{"CALL", "STATE", "TOOL", "CLASS", "RUNS", "CLAIMED", "TASK", "ARGUMENTS"},
		name: func(c callView) string { return c.Key.String() },
		row: func(c callView) []cell {
			return []cell{
				{c.Key.String(), bold}, {string(c.State), callColor(c.Call)}, {text: c.Tool}, {text: string(c.Class)},
				{text: fmt.Sprint(c.Executions)},
				{text: ago(c.ClaimedAt, now)}, {text: string(c.Task)}, {text: redact.Document(c.Args)},
			}
		},
	}
}

func callColor(c perdure.Call) color {
	switch {
	case c.State == perdure.CallUnknown, c.Result != nil && c.Result.IsError():
		return red
	case c.State == perdure.CallSettled:
		return green
	}
	return ""
}

type callShow struct {
	Call string `arg:"" help:"Call as SESSION/CALL; unique prefixes are enough."`
	outputFlags
}

// Run shows one call.
func (c *callShow) Run(ctx context.Context, a *app) error {
	if !strings.Contains(c.Call, "/") {
		return usageError(fmt.Sprintf("%q is not a call", c.Call),
			"write SESSION/CALL; "+program+" call list SESSION shows the calls")
	}
	return a.read(ctx, func(eng Engine) error {
		call, err := a.call(ctx, eng, c.Call)
		if err != nil {
			return err
		}
		return c.show(ctx, a, outputObject{call.Key.String(), callViewOf(call), func() { a.printCall(call, a.now()) }})
	})
}

// printCall prints a call on a terminal.
func (a *app) printCall(c perdure.Call, now clock) {
	result, failed, more := "", "", ""
	if c.Result != nil {
		result, failed, more = indented(c.Result.Result), c.Result.Error, string(c.Result.Metadata)
	}
	todo := ""
	if c.State == perdure.CallUnknown {
		line := taskText{a}.resolveCallLine(c.Key)
		if c.Task != "" {
			line = taskText{a}.resolveLine(c.Task)
		}
		todo = "find out whether it happened, then record it:\n" + line
	}
	a.fields(
		field{"call", cell{c.Key.String(), bold}},
		field{"state", cell{string(c.State), callColor(c)}},
		field{"what to do", cell{text: todo}},
		field{"tool", cell{text: c.Tool + " (" + string(c.Class) + ")"}},
		field{"arguments", cell{text: approvalText{a}.exactArguments(c.Args)}},
		field{"result", cell{text: result}},
		field{"error", cell{failed, red}},
		field{"metadata", cell{text: more}},
		field{"task", cell{text: string(c.Task)}},
		field{"turn", cell{text: string(c.Turn)}},
		field{"runs", cell{text: fmt.Sprint(c.Executions)}},
		field{"claimed", cell{text: moment(c.ClaimedAt, now)}},
		field{"settled", cell{text: moment(c.SettledAt, now)}},
		field{"resolved by", cell{text: c.ResolvedBy}},
	)
}
