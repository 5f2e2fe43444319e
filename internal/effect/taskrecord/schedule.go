package taskrecord

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
)

// recordRun records the end of a run on its schedule and its monitor, in the same commit.
func (rs *Records) recordRun(tx store.Tx, run perdure.Task) error {
	if run.Spec.Schedule == "" {
		return nil
	}
	s, err := tx.Schedules().Get(run.Spec.Schedule)
	if errors.Is(err, perdure.NotFound) { // the schedule was deleted
		return nil
	}
	if err != nil {
		return err
	}
	failed := run.State == perdure.TaskFailed || run.State == perdure.TaskUnknown
	if run.State != perdure.TaskSucceeded { // report the next success even if its result is the same as before
		s.LastResultHash = ""
	}
	if s, err = rs.CountFailure(tx, s, failed, run.State == perdure.TaskSucceeded); err != nil {
		return err
	}
	if err := tx.Schedules().Put(s, store.ScheduleCaps{}); err != nil {
		return err
	}
	u := perdure.TaskUpdate{Detail: fmt.Sprintf("%d fires; the run of %s %s", s.Count,
		run.Spec.Nominal.UTC().Format(time.RFC3339), run.State)}
	if s.Type() == "oneshot" {
		u.State, u.Summary, u.Error, u.ResultPath, u.LogPath = run.State, run.Summary, run.Error, run.ResultPath,
			run.LogPath
	}
	return rs.updateMonitor(tx, s, u)
}

// SuppressUnchanged suppresses the delivery of a successful run if its schedule delivers changes
// only and the result equals that of the run before. came is the digest to record for the next run;
// empty: nothing to record.
func (rs *Records) SuppressUnchanged(r store.Reader, run perdure.Task, u perdure.TaskUpdate,
	body []byte) (_ perdure.TaskUpdate, digest string, err error) {
	if run.Spec.Schedule == "" || u.State != perdure.TaskSucceeded {
		return u, "", nil
	}
	s, err := r.Schedules().Get(run.Spec.Schedule)
	if errors.Is(err, perdure.NotFound) || err == nil && s.Action.Deliver != perdure.DeliverChanges {
		return u, "", nil
	}
	sum := sha256.Sum256(body)
	if digest = hex.EncodeToString(sum[:]); s.LastResultHash == digest {
		u.Delivery, u.Wake, digest = perdure.Manual, perdure.WakeNone, ""
	}
	return u, digest, err
}

// RecordRunDigest records the digest of a run's result, in the commit of its end.
func (rs *Records) RecordRunDigest(tx store.Tx, run perdure.Task, digest string) error {
	if digest == "" {
		return nil
	}
	s, err := tx.Schedules().Get(run.Spec.Schedule)
	if err != nil {
		return err
	}
	s.LastResultHash = digest
	return tx.Schedules().Put(s, store.ScheduleCaps{})
}

// CountFailure counts how a fire ended. After too many failures in a row it pauses the schedule and
// notifies the model. The caller stores the schedule.
func (rs *Records) CountFailure(tx store.Tx, s perdure.Schedule, failed, succeeded bool) (perdure.Schedule, error) {
	switch {
	case failed:
		s.Failures++
	case succeeded:
		s.Failures = 0
	}
	s.UpdatedAt = tx.Now()
	if !s.Enabled || rs.core.ScheduleFailures <= 0 || s.Failures < rs.core.ScheduleFailures {
		return s, nil
	}
	why := fmt.Sprintf("%d fires in a row failed", s.Failures)
	s = s.Disarm(why)
	text := fmt.Sprintf("Schedule paused: %s.\n- schedule_id: %s\n- title: %s", why, s.ID, s.Title)
	notice := perdure.Message{
		ID: core.NewMessageID(), Role: perdure.RoleNotification,
		Parts: []perdure.Part{{Type: perdure.PartText, Text: text}}, At: tx.Now(),
	}
	return s, rs.AppendScheduleFact(tx, s, core.ActorRuntime, perdure.SchedulePaused{Schedule: s.ID, Why: why, By: core.ActorRuntime,
		Notification: notice})
}

// CloseMonitor ends the monitor of a one-shot schedule that will not run.
func (rs *Records) CloseMonitor(tx store.Tx, s perdure.Schedule, why string) error {
	return rs.updateMonitor(tx, s, perdure.TaskUpdate{
		State: perdure.TaskFailed, Summary: why,
		Error: &perdure.TaskError{Kind: perdure.ErrorRejected, Message: why}, Detail: "did not fire",
	})
}

// updateMonitor updates the monitor of a schedule, if there is one that has not ended.
func (rs *Records) updateMonitor(tx store.Tx, s perdure.Schedule, u perdure.TaskUpdate) error {
	if s.Monitor == "" {
		return nil
	}
	m, err := tx.Tasks().Get(s.Session, s.Monitor)
	if errors.Is(err, perdure.NotFound) || err == nil && m.State.Terminal() {
		return nil
	}
	if err == nil {
		u.Attempt = m.Attempt
		_, err = rs.Update(tx, m, u)
	}
	return err
}

// AppendScheduleFact appends a fact about a schedule.
func (rs *Records) AppendScheduleFact(tx store.Tx, s perdure.Schedule, by string, fact perdure.Fact) error {
	events := []perdure.Event{{Session: s.Session, Actor: by, Fact: fact}}
	core.Stamp(events, tx.Now())
	return tx.Journal().Append(s.Session, events)
}

// MonitorOf creates the task that represents a schedule.
func (rs *Records) MonitorOf(tx store.Tx, s perdure.Schedule, by perdure.CallKey,
	turn perdure.TurnID) (perdure.Task, error) {
	row, err := tx.Sessions().Get(s.Session)
	if err != nil {
		return perdure.Task{}, err
	}
	root := row.Root
	task := perdure.Task{
		ID: s.Monitor, Session: s.Session, RootSession: root, Kind: perdure.KindMonitor, Turn: turn,
		Call: by.Call, Origin: perdure.OriginSpawned,
		Tool: s.Action.Tool, DisplayName: s.Title, Class: perdure.Pure, Lane: perdure.Background,
		State: perdure.TaskRunning, StateDetail: "Scheduled",
		Attempt: 1, Delivery: perdure.Manual, Wake: perdure.WakeNone, Delivered: perdure.NotDelivered,
		Spec: perdure.TaskSpec{
			Tool: s.Action.Tool, Arguments: s.Action.Args, SignalOnCompletion: s.Action.Signal,
			Schedule: s.ID, ScheduleType: s.Type(),
			Cron: s.Cron, At: s.At, Zone: s.Zone,
		},
		CreatedAt: tx.Now(), StartedAt: tx.Now(), UpdatedAt: tx.Now(),
	}
	events := []perdure.Event{Event(task, perdure.TaskCreated{Task: task})}
	core.Stamp(events, tx.Now())
	if err := tx.Journal().Append(task.Session, events); err != nil {
		return perdure.Task{}, err
	}
	_, _, err = tx.Tasks().Create(task)
	return task, err
}

// LockSchedule reads a schedule in order to change it; the read locks the row of its session first.
// NotFound: there is no such schedule, or it belongs to another session.
func LockSchedule(tx store.Tx, session perdure.SessionID, id perdure.ScheduleID) (perdure.Schedule, error) {
	s, err := tx.Schedules().Get(id)
	if err == nil && session != "" && s.Session != session {
		return perdure.Schedule{}, fmt.Errorf("schedule %s: %w", id, perdure.NotFound)
	}
	return s, err
}
