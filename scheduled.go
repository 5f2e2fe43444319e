package perdure

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"reflect"
	"time"
)

// Schedule is a promise to do something at moments to come: in a session, and with its owner's rights (12.1).
type Schedule struct {
	ID          ScheduleID     `json:"id"`
	Session     SessionID      `json:"session_id"`
	Owner       string         `json:"owner,omitempty"`
	Title       string         `json:"title,omitempty"`
	Description string         `json:"description,omitempty"` // for people; a fire works from the action (SC24)
	Cron        string         `json:"cron_expression,omitempty"`
	At          time.Time      `json:"scheduled_at,omitzero"` // exactly one of both is set
	Zone        string         `json:"timezone"`              // an IANA name
	Missed      MissedPolicy   `json:"missed"`
	Window      time.Duration  `json:"missed_window_ns"` // of MissedAll: how far back
	Overlap     OverlapPolicy  `json:"overlap"`
	Jitter      time.Duration  `json:"jitter_ns,omitempty"` // a fire comes up to so much after its nominal time
	Action      ScheduleAction `json:"action"`
	Monitor     TaskID         `json:"monitor_task_id,omitempty"` // the task that stands for it (SC23)

	Enabled   bool      `json:"enabled"`
	Paused    string    `json:"paused_why,omitempty"`           // why it is not enabled
	NextAt    time.Time `json:"next_trigger_at,omitzero"`       // zero: nothing comes any more, or it is not enabled
	Nominal   time.Time `json:"next_nominal_at,omitzero"`       // NextAt without the jitter
	Waiting   time.Time `json:"waiting_nominal_at,omitzero"`    // a fire that waits for the former one's end (SC14)
	Decided   time.Time `json:"decided_until,omitzero"`         // no nominal time up to it fires any more by itself
	LastAt    time.Time `json:"last_triggered_at,omitzero"`     //
	LastFire  time.Time `json:"last_fired_nominal_at,omitzero"` // the nominal time of the fire that is the former one
	Count     int       `json:"trigger_count"`                  // fires that began
	Failures  int       `json:"failures_in_a_row"`              // SC17
	Told      string    `json:"last_result_hash,omitempty"`     // of DeliverChanges: what the last run succeeded with
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// ScheduleAction is what a fire does: it puts a message into the session, or runs a tool without a turn of the model (SC25).
type ScheduleAction struct {
	Message string          `json:"message,omitempty"`
	Tool    string          `json:"tool,omitempty"`
	Args    json.RawMessage `json:"args,omitempty"`
	Signal  bool            `json:"signal_on_completion,omitempty"` // of a tool: its end is told to the session (SC27)
	Deliver DeliverPolicy   `json:"deliver,omitempty"`              // which ends, with Signal; empty: all
}

// DeliverPolicy is which ends of a scheduled tool the session is told of (SC27).
type DeliverPolicy string

// The policies for delivery.
const (
	DeliverAll     DeliverPolicy = "all"     // the default
	DeliverChanges DeliverPolicy = "changes" // a success with the same result as the one before it is kept quiet; a failure is told
)

// MissedPolicy is what becomes of fires whose time passed while nothing ran (SC13).
type MissedPolicy string

// The policies for missed fires.
const (
	MissedOne  MissedPolicy = "one"  // the default: one fire for all of them
	MissedSkip MissedPolicy = "skip" // none
	MissedAll  MissedPolicy = "all"  // each inside the window, the oldest first, at most MaxCatchup
)

// OverlapPolicy is what becomes of a fire while the former one is still at work (SC14).
type OverlapPolicy string

// The policies for overlap.
const (
	OverlapSkip    OverlapPolicy = "skip"    // the default
	OverlapAllow   OverlapPolicy = "allow"   // both run
	OverlapQueue   OverlapPolicy = "queue"   // one waits, further ones are skipped
	OverlapReplace OverlapPolicy = "replace" // the former one is canceled, and this one waits for its end
)

// FireOutcome is what became of a nominal time (SC16).
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

// Skipped reports whether nothing was begun, and nothing will be.
func (o FireOutcome) Skipped() bool {
	return o == SkippedMissed || o == SkippedOverlap || o == SkippedBudget
}

// Fire is what became of one nominal time of a schedule (SC16). There is one of each.
type Fire struct {
	Schedule ScheduleID  `json:"schedule_id"`
	Session  SessionID   `json:"session_id"`
	Nominal  time.Time   `json:"nominal_at"`
	Actual   time.Time   `json:"actual_at"`
	Outcome  FireOutcome `json:"outcome"`
	Reason   string      `json:"reason,omitempty"`  // of all but an ordinary fire
	Counted  int         `json:"counted,omitempty"` // earlier nominal times that this one stands for
	Task     TaskID      `json:"task_id,omitempty"`
	Message  MessageID   `json:"message_id,omitempty"`
	Seq      int64       `json:"seq,omitempty"` // of the message's event: its turn comes after it
}

// ScheduleRules are the settings of schedules (chapter 18). The zero value has no limits, no grace and no window.
type ScheduleRules struct {
	PerSession  int           // enabled schedules of a session; 0: no limit
	PerOrg      int           // of all sessions; 0: no limit
	MinInterval time.Duration // of a recurring one; 0: no limit
	MaxFailures int           // in a row, then it is paused; 0: never (SC17)
	Window      time.Duration // of MissedAll, where a schedule has none of its own
	MaxCatchup  int           // missed fires that MissedAll makes up for; 0: no limit
	Grace       time.Duration // a fire that is later than this is missed
}

// DefaultScheduleRules are the defaults of chapter 18.
func DefaultScheduleRules() ScheduleRules {
	return ScheduleRules{
		PerSession: 5, PerOrg: 100, MinInterval: 300 * time.Second, MaxFailures: 10,
		Window: 24 * time.Hour, MaxCatchup: 100, Grace: time.Minute,
	}
}

// The bounds of a schedule's texts.
const (
	maxScheduleTitle   = 200      // bytes
	maxScheduleText    = 16 << 10 // of a description, and of a message
	oldestOneShot      = time.Minute
	countedAtMost      = 10_000 // missed times are counted up to here
	scheduleTimeLayout = "2006-01-02 15:04:05"
)

// Type is oneshot or recurring.
func (s Schedule) Type() string {
	if s.Cron != "" {
		return "recurring"
	}
	return "oneshot"
}

// WithDefaults fills in what was left out.
func (s Schedule) WithDefaults(r ScheduleRules) Schedule {
	s.Zone = orString(s.Zone, "UTC")
	s.Missed = MissedPolicy(orString(string(s.Missed), string(MissedOne)))
	s.Overlap = OverlapPolicy(orString(string(s.Overlap), string(OverlapSkip)))
	if s.Window == 0 {
		s.Window = r.Window
	}
	return s
}

// Check says whether a schedule with its defaults is one, apart from its moments. Invalid: what is wrong with it.
func (s Schedule) Check() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w schedule: "+format, append([]any{Invalid}, args...)...)
	}
	switch {
	case s.ID == "" || s.Session == "":
		return wrong("it has no id or no session")
	case s.Cron == "" && s.At.IsZero():
		return wrong("it must include exactly one of cron_expression (recurring) or scheduled_at (one-shot)")
	case s.Cron != "" && !s.At.IsZero():
		return wrong("it must not include both cron_expression and scheduled_at; provide exactly one")
	case s.Missed != MissedOne && s.Missed != MissedSkip && s.Missed != MissedAll:
		return wrong("missed %q: one, skip or all", s.Missed)
	case s.Overlap != OverlapSkip && s.Overlap != OverlapAllow && s.Overlap != OverlapQueue && s.Overlap != OverlapReplace:
		return wrong("overlap %q: skip, allow, queue or replace", s.Overlap)
	case s.Window < 0 || s.Jitter < 0:
		return wrong("missed_window and jitter are not negative")
	case (s.Action.Message == "") == (s.Action.Tool == ""):
		return wrong("its action is a message or a tool, and not both")
	case s.Action.Tool == "" && (len(s.Action.Args) > 0 || s.Action.Signal || s.Action.Deliver != ""):
		return wrong("a message has no arguments, no signal_on_completion and no deliver: they are of a tool")
	case s.Action.Deliver != "" && s.Action.Deliver != DeliverAll && s.Action.Deliver != DeliverChanges:
		return wrong("deliver %q: all or changes", s.Action.Deliver)
	case len(s.Title) > maxScheduleTitle || len(s.Description) > maxScheduleText || len(s.Action.Message) > maxScheduleText:
		return wrong("a title has at most %d bytes, a description and a message %d", maxScheduleTitle, maxScheduleText)
	}
	return nil
}

// Same reports whether two schedules were asked for with the same words: what the engine fills in is left out.
func (s Schedule) Same(other Schedule) bool {
	asked := func(s Schedule) Schedule {
		return Schedule{
			ID: s.ID, Session: s.Session, Owner: s.Owner, Title: s.Title, Description: s.Description, Cron: s.Cron, Zone: s.Zone,
			Missed: s.Missed, Window: s.Window, Overlap: s.Overlap, Jitter: s.Jitter, Action: s.Action,
		}
	}
	return s.At.Equal(other.At) && reflect.DeepEqual(asked(s), asked(other))
}

// Timing is when a schedule fires. internal/cron makes that of a recurring one.
type Timing struct {
	Next     func(after time.Time) (time.Time, bool) // the first nominal time after a moment, in UTC, if there is one
	Interval time.Duration                           // the smallest between two of them; 0: there is one only
}

// OnceAt is the timing of a one-shot.
func OnceAt(at time.Time) Timing {
	return Timing{Next: func(after time.Time) (time.Time, bool) { return at.UTC(), at.After(after) }}
}

// CheckTiming says whether a schedule may be made at a moment (SC9 to SC11). Invalid: why not.
func (s Schedule) CheckTiming(t Timing, now time.Time, r ScheduleRules) error {
	if s.Cron == "" {
		if s.At.Before(now.Add(-oldestOneShot)) {
			return fmt.Errorf("%w schedule: its moment %s is past; choose one to come", Invalid, s.At.UTC().Format(time.RFC3339))
		}
		return nil
	}
	switch _, fires := t.Next(now); {
	case !fires:
		return fmt.Errorf("%w schedule: it does not fire in the next ten years", Invalid)
	case t.Interval < r.MinInterval:
		return fmt.Errorf("%w schedule: it fires again after %s, and at least %s must lie between two fires: take fewer minutes or hours",
			Invalid, t.Interval, r.MinInterval)
	case s.Jitter > t.Interval/2:
		return fmt.Errorf("%w schedule: its jitter is at most half of its smallest interval, %s", Invalid, t.Interval/2)
	}
	return nil
}

// Arm enables a schedule: it fires from now on, and what passed before is not missed (SC22). A one-shot that is not yet done
// keeps its moment.
func (s Schedule) Arm(t Timing, now time.Time) Schedule {
	s.Enabled, s.Paused, s.Failures = true, "", 0
	s.Decided = now
	if s.Cron == "" {
		s.Decided = s.At.Add(-time.Microsecond) // however late it is (SC11)
	}
	return s.advanced(t)
}

// Disarm disables a schedule and says why.
func (s Schedule) Disarm(why string) Schedule {
	s.Enabled, s.Paused = false, why
	s.NextAt, s.Nominal, s.Waiting = time.Time{}, time.Time{}, time.Time{}
	return s
}

// Rearm computes what comes next from what was decided last: the data of the zone may have changed (SC12).
func (s Schedule) Rearm(t Timing) Schedule {
	if !s.Enabled {
		return s
	}
	return s.advanced(t)
}

// advanced sets what comes after what was decided. A schedule for which nothing comes is disabled once nothing of it waits.
func (s Schedule) advanced(t Timing) Schedule {
	s.NextAt, s.Nominal = time.Time{}, time.Time{}
	if next, ok := t.Next(s.Decided); ok {
		s.Nominal, s.NextAt = next, s.trigger(next)
		return s
	}
	if s.Waiting.IsZero() {
		s.Enabled = false
	}
	return s
}

// trigger is when a nominal time fires: with its jitter, which is the same after a restart.
func (s Schedule) trigger(nominal time.Time) time.Time {
	if s.Jitter <= 0 {
		return nominal
	}
	h := fnv.New64a()
	h.Write([]byte(s.ID))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(nominal.UnixMicro())))
	sum := h.Sum64()
	sum = (sum ^ sum>>33) * 0xff51afd7ed558ccd // the last bytes of a nominal time hardly reach the high bits
	return nominal.Add(time.Duration(sum>>1) % s.Jitter).Truncate(time.Microsecond)
}

// DueAt is when somebody must look at a schedule. Zero: never.
func (s Schedule) DueAt() time.Time {
	switch {
	case !s.Enabled:
		return time.Time{}
	case !s.Waiting.IsZero():
		return s.Waiting
	}
	return s.NextAt
}

// ScheduleCreated says that there is a schedule.
type ScheduleCreated struct {
	Schedule Schedule `json:"schedule"`
}

// ScheduleFired says that a schedule fired.
type ScheduleFired struct {
	Fire Fire `json:"fire"`
}

// ScheduleSkipped says that a nominal time did not fire, or not yet, and why.
type ScheduleSkipped struct {
	Fire Fire `json:"fire"`
}

// SchedulePaused says that a schedule does not fire until it is resumed.
type SchedulePaused struct {
	Schedule ScheduleID `json:"schedule_id"`
	Why      string     `json:"why"`
	By       string     `json:"by"`
	Notice   Message    `json:"notice,omitzero"` // that tells the model; without parts: nobody is told (SC17)
}

// ScheduleCanceled says that a schedule does not fire any more.
type ScheduleCanceled struct {
	Schedule ScheduleID `json:"schedule_id"`
	By       string     `json:"by"`
	Why      string     `json:"why,omitempty"`
	Deleted  bool       `json:"deleted,omitempty"`
}

// The beginnings of the reasons of fires by hand.
const (
	triggeredBy  = "triggered by "
	backfilledBy = "backfilled by "
)

// TriggeredReason is the reason of a fire by hand.
func TriggeredReason(by string) string { return triggeredBy + by }

// BackfilledReason is the reason of a fire for a time of the past.
func BackfilledReason(by string) string { return backfilledBy + by }

// ByHand reports whether somebody triggered a fire.
func (f Fire) ByHand(by string) bool { return f.Reason == TriggeredReason(by) }

// Backfilled reports whether somebody made a fire for a time of the past.
func (f Fire) Backfilled(by string) bool { return f.Reason == BackfilledReason(by) }
