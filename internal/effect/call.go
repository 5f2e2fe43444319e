package effect

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/foreground"
)

// CallRun is a foreground call that a driver runs.
type CallRun struct {
	Session *perdure.Session // as of the commit that claimed it
	Drive   *Drive
	Command perdure.RunCall
	Done    func(core.Outcome) // called once, from another goroutine; not called if the engine shuts down
}

// StartCall runs a claimed call, or takes it over, and reports its outcome through run.Done.
func (e *Effects) StartCall(ctx context.Context, run CallRun) error {
	held, id := run.Drive.row, run.Command.Call.ID
	request := foreground.Request{Session: run.Session, Row: &held, Command: run.Command, Done: run.Done}
	if row, ok := run.Drive.claimed[id]; ok {
		delete(run.Drive.claimed, id)
		request.Claimed = &row
	}
	return e.calls.Start(ctx, request)
}

// claim records the intent to run a call: its ledger row and its event.
func (s *step) claim(c perdure.ClaimCall) error {
	if withheld, err := s.withhold(c); err != nil || withheld {
		return err
	}
	if affordable, err := s.reserveCall(c); err != nil || !affordable {
		return err
	}
	if c.Call.Lane == perdure.Background {
		return s.claimRouted(c)
	}
	key := perdure.CallKey{Session: s.d.ID, Call: c.Call.ID}
	call := perdure.Call{
		Key: key, Turn: c.Turn, Tool: c.Call.Name, Args: c.Call.Args,
		Fingerprint: c.Call.Fingerprint, Class: c.Call.Class,
		Token: core.NewToken(), Worker: s.e.core.Worker, Epoch: s.row.Epoch,
	}
	outcome, row, err := s.tx.Calls().Claim(call, s.e.core.WorkerAlive(s.tx.Reader()))
	if err != nil {
		return err
	}
	if outcome == perdure.Claimed {
		s.claimed[c.Call.ID] = row
		return s.append([]perdure.Event{c.Event})
	}
	if err := s.releaseReservation(c.Call.ID); err != nil {
		return err
	}
	return s.answerClaimed(c, outcome, row)
}

// answerClaimed answers a call whose row exists although the journal has no start of it. Row and
// event are written in one commit, so either the call id was reused with other content, or the
// ledger was changed from outside.
func (s *step) answerClaimed(c perdure.ClaimCall, outcome perdure.ClaimOutcome, row perdure.Call) error {
	var result perdure.ToolResult
	switch {
	case outcome == perdure.AlreadySettled && row.Result != nil:
		result = *row.Result
	case outcome == perdure.DeterminismViolation:
		s.e.core.Log.Error("determinism violation", "session", s.d.ID, "call", c.Call.ID, "stored", row.Fingerprint,
			"current", c.Call.Fingerprint)
		result = perdure.Refused(c.Call.ID, perdure.ErrorDeterminism,
			"this call id was used before with different content")
	case outcome == perdure.AlreadyUnknown:
		result = perdure.Failed(c.Call.ID, perdure.ErrorUnknown, perdure.TextUnknown)
	default:
		return fmt.Errorf("call %s: %w: another worker runs it", row.Key, perdure.Conflict)
	}
	event := c.Event
	event.Fact = perdure.ToolCompleted{CallID: c.Call.ID, Name: c.Call.Name, Status: result.Status(), Result: result,
		Replayed: true}
	return s.append([]perdure.Event{event})
}
