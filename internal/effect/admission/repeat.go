package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// repeatArgument is the argument with which a model says that a call is a new effect, even though
// the same call has an unknown outcome. Its value is the id of that call or of its task, so no
// model sets it by accident. It is removed before anybody else sees the arguments.
const repeatArgument = "perdure_repeats"

// Repeat describes a call that may repeat one whose outcome is unknown.
type Repeat struct {
	Key   perdure.CallKey
	Class perdure.EffectClass
	Print string // fingerprint of the content as executed
	Asked string // fingerprint of the content as requested; empty: the same
	// Despite is the call or task of unknown outcome that the caller knowingly repeats as a new
	// effect; empty: none.
	Despite string
	// Resolved says that the caller also accepts the result of a call that an operator resolved, if
	// that result was not reported to it yet.
	Resolved bool
}

// FindUnresolved finds the earliest call of a session whose unknown outcome withholds another call
// of the same content.
func (a *Admission) FindUnresolved(r store.Reader, of Repeat) (found perdure.Call, ok bool, err error) {
	if of.Class == perdure.Pure {
		return found, false, nil
	}
	rows, err := r.Calls().List(store.CallFilter{Session: of.Key.Session, InDoubt: true})
	if err != nil {
		return found, false, err
	}
	live := a.core.WorkerAlive(r)
	for _, row := range rows {
		if row.Key == of.Key {
			continue
		}
		same, err := a.sameContent(r, row, of)
		if err != nil {
			return found, false, err
		}
		ownerLive := row.State != perdure.CallRunning || live(row.Worker)
		if !same || !row.BlocksRepeat(ownerLive) && !(of.Resolved && a.undeliveredResolution(r, row)) {
			continue
		}
		if of.Despite != "" && (string(row.Key.Call) == of.Despite || string(row.Task) == of.Despite) {
			return found, false, nil
		}
		if !ok {
			found, ok = row, true
		}
	}
	return found, ok, nil
}

// sameContent reports whether a row has the content of a call: as it was executed or, if hooks may
// have rewritten it, as it was requested.
func (a *Admission) sameContent(r store.Reader, row perdure.Call, of Repeat) (bool, error) {
	if row.Fingerprint == of.Print {
		return true, nil
	}
	if of.Asked == "" || row.Task == "" {
		return false, nil
	}
	task, err := r.Tasks().Get(row.Key.Session, row.Task)
	if errors.Is(err, perdure.NotFound) {
		return false, nil
	}
	return task.ArgsHash == of.Asked, err
}

// undeliveredResolution reports a call of a host that an operator resolved as happened, or that ran
// again by that resolution, whose caller knows of the unknown outcome and not yet of the
// resolution.
func (a *Admission) undeliveredResolution(r store.Reader, row perdure.Call) bool {
	if row.State != perdure.CallSettled || row.ResolvedBy == "" || row.Result == nil || row.Result.IsError() ||
		row.Task == "" {
		return false
	}
	task, err := r.Tasks().Get(row.Key.Session, row.Task)
	return err == nil && task.ReadByCaller() && !task.RepliedAt.IsZero() && task.RepliedAt.Before(task.ResolvedAt)
}

// DuplicateError is the error of a call that is not made, because the outcome of an identical call
// is unknown.
type DuplicateError struct{ By perdure.Call }

// Error names the earlier call.
func (w *DuplicateError) Error() string {
	return "the outcome of the same call, " + w.By.Key.String() + ", is unknown"
}

// Is makes the error UnknownOutcome.
func (w *DuplicateError) Is(target error) bool { return target == perdure.UnknownOutcome }

// Answer is the result that the model gets for a withheld call.
func (w *DuplicateError) Answer(call perdure.CallID) perdure.ToolResult {
	kind, id, resolves := "call", string(w.By.Key.Call), w.By.Key.String()
	if w.By.Task != "" {
		kind, id, resolves = "task", string(w.By.Task), string(w.By.Task)
	}
	return perdure.Refused(call, perdure.ErrorUnknown, fmt.Sprintf(
		"The outcome of this call is unknown: the same call was made before, as %s %s, and may or may not have "+
			"happened. It was not made again. "+
			"Do not repeat it before that one is resolved: a person has to find out what happened and record it with "+
			"\"perdure %s resolve %s\". "+
			"Only if you intend another effect, whatever happened to the first, call it again with the additional "+
			"argument %q: %q.",
		kind, id, kind, resolves, repeatArgument, id))
}

// withholdPlanned answers a call whose identical predecessor has an unknown outcome, before a
// person is asked about it or anything is counted for it. The claim checks again. nil: the call may
// continue.
func (a *Admission) withholdPlanned(ctx context.Context, s *perdure.Session, planned perdure.PlannedCall,
	args json.RawMessage) *perdure.ToolResult {
	print, err := perdure.Fingerprint(planned.Name, args)
	if err != nil || planned.ClientSide || s.Agent.DryRun {
		return nil // invalid JSON gets another error, and a client-side call is never claimed
	}
	of := Repeat{Key: perdure.CallKey{Session: s.ID, Call: planned.ID}, Class: planned.Class, Print: print,
		Despite: planned.RepeatOf}
	var by perdure.Call
	found := false
	err = a.core.Store.View(ctx, func(r store.Reader) (err error) {
		by, found, err = a.FindUnresolved(r, of)
		return err
	})
	if err != nil || !found {
		return nil
	}
	answer := (&DuplicateError{By: by}).Answer(planned.ID)
	return &answer
}

// WithholdTask refuses a task whose content is that of a call whose outcome is unknown. The caller
// fills in the fields of the repeat that do not follow from the task.
func (a *Admission) WithholdTask(r store.Reader, task perdure.Task, of Repeat) error {
	print, err := perdure.Fingerprint(task.Tool, task.Spec.Arguments)
	if err != nil {
		return err
	}
	of.Key, of.Class, of.Print = task.LedgerKey(), task.Class, print
	by, found, err := a.FindUnresolved(r, of)
	if err == nil && found {
		err = &DuplicateError{By: by}
	}
	return err
}

// takeRepeatArgument removes repeatArgument from the arguments and returns its value; empty: it is
// not there.
func takeRepeatArgument(args json.RawMessage) (rest json.RawMessage, of string) {
	if !bytes.Contains(args, []byte(repeatArgument)) {
		return args, ""
	}
	fields := map[string]json.RawMessage{}
	if perdure.DecodeJSON(args, &fields) != nil || perdure.DecodeJSON(fields[repeatArgument], &of) != nil || of == "" {
		return args, "" // the tool's schema reports what is wrong
	}
	delete(fields, repeatArgument)
	rest, err := json.Marshal(fields)
	if err != nil {
		return args, ""
	}
	return rest, of
}
