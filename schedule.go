package perdure

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"reflect"
	"time"
)

// Schedule fires an action at planned times, in a session and with the rights of its owner.
type Schedule struct {
	ID          ScheduleID     `json:"id"`
	Session     SessionID      `json:"session_id"`
	Owner       string         `json:"owner,omitempty"`
	Title       string         `json:"title,omitempty"`
	Description string         `json:"description,omitempty"` // for people; a fire uses only Action
	Cron        string         `json:"cron_expression,omitempty"`
	At          time.Time      `json:"scheduled_at,omitzero"` // exactly one of Cron and At is set
	Zone        string         `json:"timezone"`              // an IANA name
	Missed      MissedPolicy   `json:"missed"`
	Window      time.Duration  `json:"missed_window_ns"` // for MissedAll: how far back missed times count
	Overlap     OverlapPolicy  `json:"overlap"`
	Jitter      time.Duration  `json:"jitter_ns,omitempty"` // a fire comes at most this long after its nominal time
	Action      ScheduleAction `json:"action"`
	Monitor     TaskID         `json:"monitor_task_id,omitempty"` // the task that represents it

	Enabled       bool      `json:"enabled"`
	Paused        string    `json:"paused_why,omitempty"`        // why it is not enabled
	NextAt        time.Time `json:"next_trigger_at,omitzero"`    // zero: not enabled, or no nominal time is left
	Nominal       time.Time `json:"next_nominal_at,omitzero"`    // NextAt without the jitter
	QueuedNominal time.Time `json:"waiting_nominal_at,omitzero"` // of a fire that waits for the previous one to end
	DecidedUntil  time.Time `json:"decided_until,omitzero"`      // nominal times up to here fire no more by themselves
	LastAt        time.Time `json:"last_triggered_at,omitzero"`
	LastFire      time.Time `json:"last_fired_nominal_at,omitzero"` // nominal time of the previous fire
	Count         int       `json:"trigger_count"`                  // fires so far
	Failures      int       `json:"failures_in_a_row"`
	// for DeliverChanges: hash of the last successful result
	LastResultHash string    `json:"last_result_hash,omitempty"`
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// ScheduleAction is what a fire does: it sends a message to the session, or runs a tool without a
// turn.
type ScheduleAction struct {
	Message string          `json:"message,omitempty"`
	Tool    string          `json:"tool,omitempty"`
	Args    json.RawMessage `json:"args,omitempty"`
	Signal  bool            `json:"signal_on_completion,omitempty"` // of a tool: the session is notified when it ends
	Deliver DeliverPolicy   `json:"deliver,omitempty"`              // with Signal: which ends are reported; empty: all
}

// DeliverPolicy says which ends of a scheduled tool the session is notified of.
type DeliverPolicy string

// The policies for delivery.
const (
	DeliverAll     DeliverPolicy = "all"     // the default
	DeliverChanges DeliverPolicy = "changes" // failures, and successes whose result differs from the previous one
)

// MissedPolicy says what happens to nominal times that passed while the engine was not running.
type MissedPolicy string

// The policies for missed fires.
const (
	MissedOne  MissedPolicy = "one"  // the default: one fire for all of them
	MissedSkip MissedPolicy = "skip" // none
	MissedAll  MissedPolicy = "all"  // each one inside the window, oldest first, at most MaxCatchup
)

// OverlapPolicy says what happens to a fire while the previous one is still running.
type OverlapPolicy string

// The policies for overlap.
const (
	OverlapSkip    OverlapPolicy = "skip"    // the default
	OverlapAllow   OverlapPolicy = "allow"   // both run
	OverlapQueue   OverlapPolicy = "queue"   // one waits, further ones are skipped
	OverlapReplace OverlapPolicy = "replace" // the previous one is canceled, and this one waits for it to end
)

// FireOutcome is what happened at a nominal time.
type FireOutcome string

// The outcomes.
const (
	Fired          FireOutcome = "fired"
	FireQueued     FireOutcome = "queued"
	FireNotStarted FireOutcome = "failed_to_start"
	SkippedMissed  FireOutcome = "skipped_missed"
	SkippedOverlap FireOutcome = "skipped_overlap"
	SkippedBudget  FireOutcome = "skipped_budget"
)

// Skipped reports whether nothing was started and nothing will be.
func (o FireOutcome) Skipped() bool {
	return o == SkippedMissed || o == SkippedOverlap || o == SkippedBudget
}

// Fire records what happened at a nominal time of a schedule. Each nominal time has at most one.
type Fire struct {
	Schedule ScheduleID  `json:"schedule_id"`
	Session  SessionID   `json:"session_id"`
	Nominal  time.Time   `json:"nominal_at"`
	Actual   time.Time   `json:"actual_at"`
	Outcome  FireOutcome `json:"outcome"`
	Reason   string      `json:"reason,omitempty"`  // empty for an ordinary fire
	Merged   int         `json:"counted,omitempty"` // earlier nominal times that this one stands for
	Task     TaskID      `json:"task_id,omitempty"`
	Message  MessageID   `json:"message_id,omitempty"`
	Seq      int64       `json:"seq,omitempty"` // of the message's event; the turn of the message comes after it
}

// ScheduleRules are the settings of schedules. The zero value has no limits, no grace and no
// window.
type ScheduleRules struct {
	PerSession  int           // enabled schedules of a session; 0: no limit
	PerOrg      int           // of all sessions; 0: no limit
	MinInterval time.Duration // of a recurring one; 0: no limit
	MaxFailures int           // consecutive failures that pause a schedule; 0: never
	Window      time.Duration // for MissedAll, if the schedule has no window of its own
	MaxCatchup  int           // missed fires that MissedAll makes up for; 0: no limit
	Grace       time.Duration // a fire that is later than this counts as missed
}

// DefaultScheduleRules returns the default settings.
func DefaultScheduleRules() ScheduleRules {
	return ScheduleRules{
		PerSession: 5, PerOrg: 100, MinInterval: 300 * time.Second, MaxFailures: 10,
		Window: 24 * time.Hour, MaxCatchup: 100, Grace: time.Minute,
	}
}

// Limits of a schedule.
const (
	maxScheduleTitle   = 200      // bytes
	maxScheduleText    = 16 << 10 // bytes of a description or a message
	oldestOneShot      = time.Minute
	maxCountedFires    = 10_000 // missed times are counted up to this number
	scheduleTimeLayout = "2006-01-02 15:04:05"
)

// Type returns oneshot or recurring.
func (s Schedule) Type() string {
	if s.Cron != "" {
		return "recurring"
	}
	return "oneshot"
}

// WithDefaults fills in the fields that were left empty.
func (s Schedule) WithDefaults(r ScheduleRules) Schedule {
	s.Zone = cmp.Or(s.Zone, "UTC")
	s.Missed = cmp.Or(s.Missed, MissedOne)
	s.Overlap = cmp.Or(s.Overlap, OverlapSkip)
	if s.Window == 0 {
		s.Window = r.Window
	}
	return s
}

// Check returns an Invalid error if the schedule is wrong, apart from its times. Defaults must be
// filled in.
func (s Schedule) Check() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w schedule: "+format, append([]any{Invalid}, args...)...)
	}
	switch {
	case s.ID == "" || s.Session == "":
		return wrong("the id or the session is missing")
	case s.Cron == "" && s.At.IsZero():
		return wrong("it must include exactly one of cron_expression (recurring) or scheduled_at (one-shot)")
	case s.Cron != "" && !s.At.IsZero():
		return wrong("it must not include both cron_expression and scheduled_at; provide exactly one")
	case s.Missed != MissedOne && s.Missed != MissedSkip && s.Missed != MissedAll:
		return wrong("missed is %q: use one, skip or all", s.Missed)
	case s.Overlap != OverlapSkip && s.Overlap != OverlapAllow && s.Overlap != OverlapQueue && s.Overlap != OverlapReplace:
		return wrong("overlap is %q: use skip, allow, queue or replace", s.Overlap)
	case s.Window < 0 || s.Jitter < 0:
		return wrong("missed_window and jitter must not be negative")
	case (s.Action.Message == "") == (s.Action.Tool == ""):
		return wrong("the action must be either a message or a tool")
	case s.Action.Tool == "" && (len(s.Action.Args) > 0 || s.Action.Signal || s.Action.Deliver != ""):
		return wrong("arguments, signal_on_completion and deliver are only for a tool, not for a message")
	case s.Action.Deliver != "" && s.Action.Deliver != DeliverAll && s.Action.Deliver != DeliverChanges:
		return wrong("deliver is %q: use all or changes", s.Action.Deliver)
	case len(s.Title) > maxScheduleTitle || len(s.Description) > maxScheduleText || len(s.Action.Message) > maxScheduleText:
		return wrong("a title can have at most %d bytes, a description or a message %d", maxScheduleTitle,
			maxScheduleText)
	}
	return nil
}

// Same reports whether two schedules were requested with the same settings. Fields that the engine
// fills in are ignored.
func (s Schedule) Same(other Schedule) bool {
	requested := func(s Schedule) Schedule {
		return Schedule{
			ID: s.ID, Session: s.Session, Owner: s.Owner, Title: s.Title, Description: s.Description, Cron: s.Cron, Zone: s.Zone,
			Missed: s.Missed, Window: s.Window, Overlap: s.Overlap, Jitter: s.Jitter, Action: s.Action,
		}
	}
	return s.At.Equal(other.At) && reflect.DeepEqual(requested(s), requested(other))
}

// Timing says when a schedule fires. internal/cron makes the timing of a recurring schedule.
type Timing struct {
	Next     func(after time.Time) (time.Time, bool) // the next nominal time in UTC, if there is one
	Interval time.Duration                           // the shortest time between two of them; 0: there is only one
}

// OnceAt returns the timing of a one-shot schedule.
func OnceAt(at time.Time) Timing {
	return Timing{Next: func(after time.Time) (time.Time, bool) { return at.UTC(), at.After(after) }}
}

// CheckTiming returns an Invalid error if the schedule must not be created at now because of its
// times.
func (s Schedule) CheckTiming(t Timing, now time.Time, r ScheduleRules) error {
	if s.Cron == "" {
		if s.At.Before(now.Add(-oldestOneShot)) {
			return fmt.Errorf("%w schedule: its time %s is in the past; choose a later one",
				Invalid, s.At.UTC().Format(time.RFC3339))
		}
		return nil
	}
	switch _, fires := t.Next(now); {
	case !fires:
		return fmt.Errorf("%w schedule: it does not fire in the next ten years", Invalid)
	case t.Interval < r.MinInterval:
		return fmt.Errorf("%w schedule: two fires can be %s apart, but at least %s must lie between them: "+
			"choose a longer interval", Invalid, t.Interval, r.MinInterval)
	case s.Jitter > t.Interval/2:
		return fmt.Errorf("%w schedule: its jitter must be at most half of its shortest interval, %s",
			Invalid, t.Interval/2)
	}
	return nil
}

// Arm enables a schedule. It fires from now on; earlier nominal times do not count as missed. A
// one-shot schedule that has not fired keeps its time.
func (s Schedule) Arm(t Timing, now time.Time) Schedule {
	s.Enabled, s.Paused, s.Failures = true, "", 0
	s.DecidedUntil = now
	if s.Cron == "" {
		s.DecidedUntil = s.At.Add(-time.Microsecond) // it still fires, however late
	}
	return s.advanced(t)
}

// Disarm disables a schedule and stores the reason.
func (s Schedule) Disarm(why string) Schedule {
	s.Enabled, s.Paused = false, why
	s.NextAt, s.Nominal, s.QueuedNominal = time.Time{}, time.Time{}, time.Time{}
	return s
}

// Rearm computes the next nominal time again from the last decided one, because time zone rules can
// change.
func (s Schedule) Rearm(t Timing) Schedule {
	if !s.Enabled {
		return s
	}
	return s.advanced(t)
}

// advanced sets the nominal time after the last decided one. A schedule without another nominal
// time is disabled, unless one of its fires is still waiting.
func (s Schedule) advanced(t Timing) Schedule {
	s.NextAt, s.Nominal = time.Time{}, time.Time{}
	if next, ok := t.Next(s.DecidedUntil); ok {
		s.Nominal, s.NextAt = next, s.trigger(next)
		return s
	}
	if s.QueuedNominal.IsZero() {
		s.Enabled = false
	}
	return s
}

// trigger returns when a nominal time fires: with its jitter, which is the same after a restart.
func (s Schedule) trigger(nominal time.Time) time.Time {
	if s.Jitter <= 0 {
		return nominal
	}
	h := fnv.New64a()
	h.Write([]byte(s.ID))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(nominal.UnixMicro())))
	sum := h.Sum64()
	sum = (sum ^ sum>>33) * 0xff51afd7ed558ccd // mixes the low bits of the nominal time into the high bits
	return nominal.Add(time.Duration(sum>>1) % s.Jitter).Truncate(time.Microsecond)
}

// DueAt returns when the schedule has to be inspected next. Zero: never.
func (s Schedule) DueAt() time.Time {
	switch {
	case !s.Enabled:
		return time.Time{}
	case !s.QueuedNominal.IsZero():
		return s.QueuedNominal
	}
	return s.NextAt
}

// ScheduleCreated says that a schedule was created.
type ScheduleCreated struct {
	Schedule Schedule `json:"schedule"`
}

// ScheduleFired says that a schedule fired.
type ScheduleFired struct {
	Fire Fire `json:"fire"`
}

// ScheduleSkipped says that a nominal time did not fire, or has not fired yet, and why.
type ScheduleSkipped struct {
	Fire Fire `json:"fire"`
}

// SchedulePaused says that a schedule does not fire until it is resumed.
type SchedulePaused struct {
	Schedule     ScheduleID `json:"schedule_id"`
	Why          string     `json:"why"`
	By           string     `json:"by"`
	Notification Message    `json:"notice,omitzero"` // the notification for the model; without parts: none
}

// ScheduleCanceled says that a schedule does not fire any more.
type ScheduleCanceled struct {
	Schedule ScheduleID `json:"schedule_id"`
	By       string     `json:"by"`
	Why      string     `json:"why,omitempty"`
	Deleted  bool       `json:"deleted,omitempty"`
}

// The prefixes of the reasons of manual fires.
const (
	triggeredBy  = "triggered by "
	backfilledBy = "backfilled by "
)

// TriggeredReason is the reason of a manual fire.
func TriggeredReason(by string) string { return triggeredBy + by }

// BackfilledReason is the reason of a manual fire for a past nominal time.
func BackfilledReason(by string) string { return backfilledBy + by }

// ByHand reports whether the fire was triggered manually by this person.
func (f Fire) ByHand(by string) bool { return f.Reason == TriggeredReason(by) }

// Backfilled reports whether the fire was made by this person for a past nominal time.
func (f Fire) Backfilled(by string) bool { return f.Reason == BackfilledReason(by) }
