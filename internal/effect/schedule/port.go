package schedule

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/secretargs"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// scheduledByModel is the owner of schedules that a model created.
const scheduledByModel = "agent"

// Port gives a call the schedules of its session.
type Port struct {
	schedules *Schedules
	*environment.Caller
}

var _ tool.Schedules = (*Port)(nil)

// CreateSchedule creates a schedule of the port's session. The tool is judged now too, so that a
// denied tool is refused here and not at the first fire. If an approval is needed, each fire asks.
func (p *Port) CreateSchedule(ctx context.Context, o tool.ScheduleRequest) (perdure.Schedule, error) {
	s := o.Schedule
	s.ID, s.Session, s.Owner = "", p.Owner.Session, scheduledByModel
	known := p.schedules.secrets.Known(s.Session)
	s.Title, s.Description, s.Action.Message = secretargs.MaskKnown(known, s.Title), secretargs.MaskKnown(known, s.Description),
		secretargs.MaskKnown(known, s.Action.Message)
	if s.Action.Args, _ = secretargs.MaskKnownJSON(known, s.Action.Args); secretargs.HasKnownMark(s.Action.Args) {
		return s, &tool.Denied{Result: secretargs.LostResult()}
	}
	if s.Action.Tool != "" {
		target, ok := p.schedules.toolset.Lookup(p.Owner.Agent, p.Owner.HasDetachedWork, s.Action.Tool)
		if !ok {
			return s, &tool.Denied{Result: tool.Error("Unknown tool: " + s.Action.Tool)}
		}
		call := p.Owner.Calls(tool.Call{Session: s.Session, Turn: p.Turn, ID: p.Call, Tool: s.Action.Tool, Args: s.Action.Args,
			Class: target.Spec().Class})
		if j := p.schedules.admission.Judge(ctx, p.Owner.Agent, target, call, p.Read); j.Refusal != nil {
			return s, &tool.Denied{Result: *j.Refusal}
		}
	}
	return p.schedules.core.CreateSchedule(ctx, s, &core.ScheduleCall{Call: p.Call, Turn: p.Turn, At: p.At, Monitor: o.Monitor,
		Fence: p.Fence})
}

// Schedules returns the schedules of the port's session.
func (p *Port) Schedules(ctx context.Context) (list []perdure.Schedule, err error) {
	err = p.schedules.core.Store.View(ctx, func(r store.Reader) error {
		list, err = r.Schedules().List(store.ScheduleFilter{Session: p.Owner.Session})
		return err
	})
	return list, err
}

// CancelSchedule cancels a schedule of the port's session.
func (p *Port) CancelSchedule(ctx context.Context, id perdure.ScheduleID, why string) (perdure.Schedule, error) {
	return p.schedules.EndSchedule(ctx, p.Owner.Session, id,
		taskrecord.CancelIntent{By: "agent", Why: secretargs.MaskKnown(p.schedules.secrets.Known(p.Owner.Session), why)}, false)
}

// EndSchedule cancels a schedule with its monitor and runs, and removes it if remove is set, in one
// commit. An empty session means any. NotFound: there is no such schedule, or it belongs to another
// session.
func (ss *Schedules) EndSchedule(ctx context.Context, session perdure.SessionID, id perdure.ScheduleID, wish taskrecord.CancelIntent,
	remove bool) (s perdure.Schedule, err error) {
	var tree []perdure.Task
	err = ss.core.Store.InTx(store.Urgent(ctx), func(tx store.Tx) (err error) {
		tree = nil
		if s, err = taskrecord.LockSchedule(tx, session, id); err != nil {
			return err
		}
		record := s.Enabled || remove
		s = s.Disarm("canceled")
		s.UpdatedAt = tx.Now()
		err = tx.Schedules().Put(s, store.ScheduleCaps{})
		if m, failed := tx.Tasks().Get(s.Session, s.Monitor); err == nil && s.Monitor != "" && failed == nil &&
			m.State.Live() {
			tree, err = ss.records.CancelTree(tx, m, wish)
		}
		if err == nil && record {
			err = ss.records.AppendScheduleFact(tx, s, wish.By, perdure.ScheduleCanceled{Schedule: s.ID, By: wish.By, Why: wish.Why,
				Deleted: remove})
		}
		if err == nil && remove {
			_, err = tx.Schedules().Remove(id)
		}
		return err
	})
	if err != nil {
		return s, fmt.Errorf("cancel schedule %s: %w", id, err)
	}
	for _, t := range tree {
		ss.tasks.SignalCancel(ctx, t)
	}
	ss.core.Wake(s.Session)
	return s, nil
}

// CanSchedule checks whether a session's tool can be run by a schedule. Invalid or NotFound: it
// cannot; the error says why.
func (ss *Schedules) CanSchedule(r store.Reader, s perdure.Schedule) error {
	o, err := core.ReadOwner(r, s.Session)
	if err != nil || s.Action.Tool == "" {
		return err
	}
	target, ok := ss.toolset.Lookup(o.Agent, o.HasDetachedWork, s.Action.Tool)
	if !ok {
		return fmt.Errorf("%w: Unknown tool: %s", perdure.Invalid, s.Action.Tool)
	}
	if _, runs := target.(tool.Background); !runs || target.Spec().Policy == tool.PolicyClientSide {
		return fmt.Errorf("%w: Tool does not support background execution: %s", perdure.Invalid, s.Action.Tool)
	}
	if faults := ss.core.Tools.Validate(s.Action.Tool, s.Action.Args); faults != nil {
		return fmt.Errorf("%w: %s", perdure.Invalid, faults.Text)
	}
	return nil
}
