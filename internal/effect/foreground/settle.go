package foreground

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// settledOutcome returns the outcome that ends a call. Its settlement and tool.completed are one
// commit.
func (cs *Calls) settledOutcome(run Request, row perdure.Call, r tool.Result) core.Outcome {
	cs.secrets.Vault.Drop(row.Key)
	owner := core.CallerOf(run.Session).Of(*run.Row)
	call := owner.Calls(core.ToolCall(row, time.Time{}))
	r, _ = cs.core.Gate().After(context.Background(), call, r)
	full := cs.environment.FullRecord(row, r)
	record := cs.cut(row, full)
	state := perdure.CallSettled
	fact := perdure.ToolCompleted{
		CallID: row.Key.Call, Name: row.Tool, Status: record.Status(),
		Result: record, DurationMS: core.Elapsed(row.ClaimedAt, time.Now()).Milliseconds(),
		Narration: cs.environment.Narration(call, full, r.RevealsSecret),
	}
	events := []perdure.Event{{Session: row.Key.Session, Actor: "runtime", Turn: run.Command.Turn, Call: row.Key.Call,
		Fact: fact}}
	if record.ConnectionRequired != "" && run.Session.Agent.ClientConnections {
		// the turn waits for the client to connect
		events[0].Fact = perdure.ToolCallRequested{CallID: row.Key.Call, Name: row.Tool, Args: row.Args,
			Connection: record.ConnectionRequired}
		waiting := events[0]
		waiting.Fact = perdure.SessionAwaits{TurnID: run.Command.Turn, CallIDs: []perdure.CallID{row.Key.Call}}
		events = append(events, waiting)
	}
	if record.ErrorKind == perdure.ErrorUnknown {
		state = perdure.CallUnknown
		unknown := events[0]
		unknown.Fact = perdure.ToolUnknown{CallID: row.Key.Call, Name: row.Tool, Since: row.ClaimedAt,
			IdempotencyKey: row.Key.IdempotencyKey()}
		events = append(events, unknown)
	}
	return core.Outcome{
		Events: events,
		Settle: &core.Settlement{Key: row.Key, Token: row.Token, State: state, Result: record},
	}
}

// cut truncates the full record of a call to what a model reads.
func (cs *Calls) cut(row perdure.Call, full perdure.ToolResult) perdure.ToolResult {
	key := row.Key
	return cs.environment.TruncateResult(key, full, func(r store.Reader) error {
		now, err := r.Calls().Get(key)
		if err == nil && now.Token != row.Token {
			err = fmt.Errorf("call %s: %w: another worker owns it", key, perdure.Lost)
		}
		return err
	})
}

// gaveUpResult is the result of a call whose process crashed too often.
func gaveUpResult(row perdure.Call) tool.Result {
	r := tool.Failf("gave up after %d executions", row.Executions)
	r.ErrorKind = perdure.ErrorInternal
	return r
}
