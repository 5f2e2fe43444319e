package effect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// repeatArgument is the argument by which a model says that a call is a new effect, whatever became of the same call before. Its value
// is the id of that call, or of its task, so no model sets it by accident. It is taken out before anybody else sees the arguments.
const repeatArgument = "perdure_repeats"

// repeat is a call that may be the same as one whose outcome is unknown (decision 031).
type repeat struct {
	key      perdure.CallKey
	class    perdure.EffectClass
	print    string // of the content as it is executed
	asked    string // of the content as it was asked for; empty: likewise
	despite  string // the call or task whose unknown outcome does not matter, since the caller means a new effect; empty: none
	resolved bool   // the caller takes the result of a call that an operator resolved, too, if nobody was told it
}

// unresolved finds the earliest call of a session that withholds another one of the same content.
func (e *Effects) unresolved(r store.Reader, of repeat) (found perdure.Call, ok bool, err error) {
	if of.class == perdure.Pure {
		return found, false, nil
	}
	rows, err := r.Calls(store.CallFilter{Session: of.key.Session, InDoubt: true})
	if err != nil {
		return found, false, err
	}
	live := e.live(r)
	for _, row := range rows {
		if row.Key == of.key {
			continue
		}
		same, err := e.sameContent(r, row, of)
		if err != nil {
			return found, false, err
		}
		ownerLive := row.State != perdure.CallRunning || live(row.Worker)
		if !same || !row.Withholds(ownerLive) && !(of.resolved && e.untoldWord(r, row)) {
			continue
		}
		if of.despite != "" && (string(row.Key.Call) == of.despite || string(row.Task) == of.despite) {
			return found, false, nil
		}
		if !ok {
			found, ok = row, true
		}
	}
	return found, ok, nil
}

// sameContent reports whether a row has the content of a call: as it was executed or, where hooks may have rewritten it, as it was asked
// for.
func (e *Effects) sameContent(r store.Reader, row perdure.Call, of repeat) (bool, error) {
	if row.Fingerprint == of.print {
		return true, nil
	}
	if of.asked == "" || row.Task == "" {
		return false, nil
	}
	task, err := r.Task(row.Key.Session, row.Task)
	if errors.Is(err, perdure.NotFound) {
		return false, nil
	}
	return task.ArgsHash == of.asked, err
}

// untoldWord reports a call of a host that happened by an operator's word, or ran again by it, whose caller was told of the unknown
// outcome and not yet of the word.
func (e *Effects) untoldWord(r store.Reader, row perdure.Call) bool {
	if row.State != perdure.CallSettled || row.ResolvedBy == "" || row.Result == nil || row.Result.IsError() || row.Task == "" {
		return false
	}
	task, err := r.Task(row.Key.Session, row.Task)
	return err == nil && task.Taken() && !task.ToldAt.IsZero() && task.ToldAt.Before(task.ResolvedAt)
}

// withheld is the error of a call that is not made since the outcome of the same call before is unknown.
type withheld struct{ by perdure.Call }

// Error says by which.
func (w *withheld) Error() string {
	return "the outcome of the same call, " + w.by.Key.String() + ", is unknown"
}

// Is reports UnknownOutcome.
func (w *withheld) Is(target error) bool { return target == perdure.UnknownOutcome }

// answer is what a model is told instead of the call's result.
func (w *withheld) answer(call perdure.CallID) perdure.ToolResult {
	kind, id, resolves := "call", string(w.by.Key.Call), w.by.Key.String()
	if w.by.Task != "" {
		kind, id, resolves = "task", string(w.by.Task), string(w.by.Task)
	}
	return perdure.Refused(call, perdure.ErrorUnknown, fmt.Sprintf(
		"The outcome of this call is unknown: the same call was made before, as %s %s, and may or may not have happened. It was not made again. "+
			"Do not repeat it before that one is resolved: a person finds out what happened and says it with \"perdure %s resolve %s\". "+
			"Only if a further effect is meant, whatever became of the first, call it again with the additional argument %q: %q.",
		kind, id, kind, resolves, repeatArgument, id))
}

// withholdPlanned answers a call with the unknown outcome of the same call before, before a person is asked about it or anything is
// counted for it. Its claim looks again. nil: it may go on.
func (e *Effects) withholdPlanned(ctx context.Context, s *perdure.Session, planned perdure.PlannedCall, args json.RawMessage) *perdure.ToolResult {
	print, err := perdure.Fingerprint(planned.Name, args)
	if err != nil || planned.ClientSide || s.Agent.DryRun {
		return nil // what is no JSON is refused in other words, and what a client does is not claimed
	}
	of := repeat{key: perdure.CallKey{Session: s.ID, Call: planned.ID}, class: planned.Class, print: print, despite: planned.Repeats}
	var by perdure.Call
	found := false
	err = e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		by, found, err = e.unresolved(r, of)
		return err
	})
	if err != nil || !found {
		return nil
	}
	answer := (&withheld{by}).answer(planned.ID)
	return &answer
}

// withhold answers a call with the unknown outcome of the same call before, instead of claiming it.
func (s *step) withhold(c perdure.ClaimCall) (bool, error) {
	if s.session.Agent.DryRun {
		return false, nil
	}
	by, found, err := s.e.unresolved(s.tx, repeat{
		key: perdure.CallKey{Session: s.d.ID, Call: c.Call.ID}, class: c.Call.Class, print: c.Call.Fingerprint, despite: c.Call.Repeats,
	})
	if err != nil || !found {
		return false, err
	}
	answer := (&withheld{by}).answer(c.Call.ID)
	return true, s.tell(c.Event, perdure.ToolCompleted{CallID: c.Call.ID, Name: c.Call.Name, Status: answer.Status(), Result: answer})
}

// withholdTask refuses a task whose content is that of a call whose outcome is unknown. Of the call the caller says what is not the task's.
func (e *Effects) withholdTask(r store.Reader, task perdure.Task, of repeat) error {
	print, err := perdure.Fingerprint(task.Tool, task.Spec.Arguments)
	if err != nil {
		return err
	}
	of.key, of.class, of.print = task.LedgerKey(), task.Class, print
	by, found, err := e.unresolved(r, of)
	if err == nil && found {
		err = &withheld{by}
	}
	return err
}

// repeatsOf takes the argument that says that a call is a new effect out of its arguments. Empty: it is not there.
func repeatsOf(args json.RawMessage) (rest json.RawMessage, of string) {
	if !bytes.Contains(args, []byte(repeatArgument)) {
		return args, ""
	}
	fields := map[string]json.RawMessage{}
	if perdure.DecodeJSON(args, &fields) != nil || perdure.DecodeJSON(fields[repeatArgument], &of) != nil || of == "" {
		return args, "" // the tool's schema says what is wrong
	}
	delete(fields, repeatArgument)
	rest, err := json.Marshal(fields)
	if err != nil {
		return args, ""
	}
	return rest, of
}
