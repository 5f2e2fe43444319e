package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
)

type callCommand struct {
	List    callList    `cmd:"" help:"List the calls of a session in the order of their claims."`
	Show    callShow    `cmd:"" help:"Show a call: what was run, how often, and what became of it."`
	Resolve taskResolve `cmd:"" help:"Say what became of a call whose outcome is unknown; the same as task resolve."`
}

type callList struct {
	Session string   `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	State   []string `help:"Only those in these states: running, settled, unknown." placeholder:"STATE"`
	output
}

// Run lists calls. What they were given and came to is shown without secrets (RD6).
func (c *callList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		all, err := eng.Calls(ctx, s.ID)
		if err != nil {
			return fmt.Errorf("list calls of %s: %w", s.ID, err)
		}
		var chosen []toldCall
		for _, call := range all {
			if wantedState(string(call.State), c.State) {
				if len(call.Args) > 0 {
					call.Args = redact.JSON(call.Args)
				}
				chosen = append(chosen, told(call))
			}
		}
		return calls(a.now()).print(ctx, a, c.output, chosen)
	})
}

func wantedState(state string, states []string) bool {
	for _, s := range states {
		if s == state {
			return true
		}
	}
	return len(states) == 0
}

// toldCall is a call for programs: a server does not say who worked on it, and what is not known is left out.
type toldCall struct {
	perdure.Call
	Worker perdure.WorkerID `json:"worker_id,omitempty"`
	Epoch  int64            `json:"epoch,omitempty"`
}

func told(c perdure.Call) toldCall { return toldCall{c, c.Worker, c.Epoch} }

// calls is how calls are listed.
func calls(now clock) listing[toldCall] {
	return listing[toldCall]{
		noun: "calls",
		head: []string{"CALL", "STATE", "TOOL", "CLASS", "RUNS", "CLAIMED", "TASK", "ARGUMENTS"},
		name: func(c toldCall) string { return c.Key.String() },
		row: func(c toldCall) []cell {
			return []cell{
				{c.Key.String(), bold}, {string(c.State), callColor(c.Call)}, {text: c.Tool}, {text: string(c.Class)}, {text: fmt.Sprint(c.Executions)},
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
	Call string `arg:"" help:"The call, as SESSION/CALL; a unique beginning of either is enough."`
	output
}

// Run shows one call.
func (c *callShow) Run(ctx context.Context, a *app) error {
	if !strings.Contains(c.Call, "/") {
		return misuse(fmt.Sprintf("%q is no call", c.Call), "name it as SESSION/CALL; "+program+" call list SESSION shows the calls")
	}
	return a.read(ctx, func(eng Engine) error {
		call, err := a.call(ctx, eng, c.Call)
		if err != nil {
			return err
		}
		return c.show(ctx, a, shown{call.Key.String(), told(call), func() { a.tellCall(call, a.now()) }})
	})
}

// tellCall prints a call for people.
func (a *app) tellCall(c perdure.Call, now clock) {
	result, failed := "", ""
	if c.Result != nil {
		result, failed = indented(c.Result.Result), c.Result.Error
	}
	todo := ""
	if c.State == perdure.CallUnknown {
		line := a.resolveCallLine(c.Key)
		if c.Task != "" {
			line = a.resolveLine(c.Task)
		}
		todo = "find out whether it happened, then say so:\n" + line
	}
	a.fields(
		field{"call", cell{c.Key.String(), bold}},
		field{"state", cell{string(c.State), callColor(c)}},
		field{"what to do", cell{text: todo}},
		field{"tool", cell{text: c.Tool + " (" + string(c.Class) + ")"}},
		field{"arguments", cell{text: a.exact(c.Args)}},
		field{"result", cell{text: result}},
		field{"error", cell{failed, red}},
		field{"task", cell{text: string(c.Task)}},
		field{"turn", cell{text: string(c.Turn)}},
		field{"runs", cell{text: fmt.Sprint(c.Executions)}},
		field{"claimed", cell{text: moment(c.ClaimedAt, now)}},
		field{"settled", cell{text: moment(c.SettledAt, now)}},
		field{"resolved by", cell{text: c.ResolvedBy}},
	)
}
