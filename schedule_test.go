package perdure_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/perdure/perdure"
)

// hourly fires at each full hour.
func hourly() perdure.Timing {
	return perdure.Timing{Interval: time.Hour, Next: func(after time.Time) (time.Time, bool) { return after.Truncate(time.Hour).Add(time.Hour), true }}
}

// clock is a moment of the first days of a month: day, hour, minute.
func clock(day, hour, minute int) time.Time {
	return time.Date(2026, 11, day, hour, minute, 0, 0, time.UTC)
}

// armed is an hourly schedule as of 12:00 of the first day, which fires at 13:00 next.
func armed(change func(*perdure.Schedule)) perdure.Schedule {
	s := perdure.Schedule{ID: "sched_1", Session: sessionID, Cron: "@hourly", Action: perdure.ScheduleAction{Message: "look"}}
	s = s.WithDefaults(perdure.DefaultScheduleRules())
	if change != nil {
		change(&s)
	}
	return s.Arm(hourly(), clock(1, 12, 0))
}

// TestMissedPolicies is the table of SC13 and SC14: what a look does, how often, and what is next.
func TestMissedPolicies(t *testing.T) {
	t.Parallel()
	missed := func(m perdure.MissedPolicy) func(*perdure.Schedule) {
		return func(s *perdure.Schedule) { s.Missed = m }
	}
	overlap := func(o perdure.OverlapPolicy) func(*perdure.Schedule) {
		return func(s *perdure.Schedule) { s.Overlap = o }
	}
	both := func(m perdure.MissedPolicy, o perdure.OverlapPolicy) func(*perdure.Schedule) {
		return func(s *perdure.Schedule) { s.Missed, s.Overlap = m, o }
	}
	cases := []struct {
		name   string
		change func(*perdure.Schedule)
		now    time.Time
		busy   bool
		want   []string // steps: nominal, outcome, how many it stands for
		next   time.Time
	}{
		{"not_yet", nil, clock(1, 12, 59), false, nil, clock(1, 13, 0)},
		{"on_time", nil, clock(1, 13, 0), false, []string{"1 13:00 fired 1"}, clock(1, 14, 0)},
		{"within_the_grace", missed("skip"), clock(1, 13, 1), false, []string{"1 13:00 fired 1"}, clock(1, 14, 0)},
		{"one_after_a_night", nil, clock(2, 8, 30), false, []string{"2 08:00 fired 20"}, clock(2, 9, 0)},
		{"one_with_an_on_time_one", nil, clock(2, 8, 0), false, []string{"2 08:00 fired 20"}, clock(2, 9, 0)},
		{"one_just_late", nil, clock(1, 13, 2), false, []string{"1 13:00 fired 1"}, clock(1, 14, 0)},
		{"skip_after_a_night", missed("skip"), clock(2, 8, 30), false, []string{"2 08:00 skipped_missed 20"}, clock(2, 9, 0)},
		{"skip_with_an_on_time_one", missed("skip"), clock(2, 8, 0), false, []string{"2 07:00 skipped_missed 19", "2 08:00 fired 1"}, clock(2, 9, 0)},
		{"all_in_order", missed("all"), clock(1, 15, 30), false, []string{"1 13:00 fired 1", "1 14:00 fired 1", "1 15:00 fired 1"}, clock(1, 16, 0)},
		{"all_waits_for_the_former", missed("all"), clock(1, 15, 30), true, nil, clock(1, 13, 0)},
		{"all_allow_does_not_wait", both("all", "allow"), clock(1, 14, 30), true, []string{"1 13:00 fired 1", "1 14:00 fired 1"}, clock(1, 15, 0)},
		{"all_outside_the_window", func(s *perdure.Schedule) { s.Missed, s.Window = "all", 2*time.Hour }, clock(1, 18, 30), false,
			[]string{"1 16:00 skipped_missed 4", "1 17:00 fired 1", "1 18:00 fired 1"}, clock(1, 19, 0)},
		{"skip_overlap", nil, clock(1, 13, 0), true, []string{"1 13:00 skipped_overlap 1"}, clock(1, 14, 0)},
		{"allow_overlap", overlap("allow"), clock(1, 13, 0), true, []string{"1 13:00 fired 1"}, clock(1, 14, 0)},
		{"queue_overlap", overlap("queue"), clock(1, 13, 0), true, []string{"1 13:00 queued 1"}, clock(1, 14, 0)},
		{"replace_overlap", overlap("replace"), clock(1, 13, 0), true, []string{"1 13:00 queued 1 replace"}, clock(1, 14, 0)},
		{"one_missed_and_busy", nil, clock(2, 8, 30), true, []string{"2 08:00 skipped_overlap 20"}, clock(2, 9, 0)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, got := armed(c.change), []string(nil)
			for {
				step := s.Step(hourly(), c.now, c.busy, perdure.DefaultScheduleRules())
				if step.Outcome == "" {
					break
				}
				word := fmt.Sprintf("%s %s %d", step.Nominal.Format("2 15:04"), step.Outcome, step.Merged+1)
				if step.Replace {
					word += " replace"
				}
				if step.Outcome.Skipped() && step.Reason == "" {
					t.Errorf("%s: a skip has its reason", word)
				}
				got, s = append(got, word), step.Schedule
			}

			if !slices.Equal(got, c.want) || !s.NextAt.Equal(c.next) {
				t.Errorf("got %q, next %s; want %q, next %s", got, s.NextAt, c.want, c.next)
			}
		})
	}
}

// TestScheduleQueue holds one fire, skips a further one, and fires when the former ends (SC14).
func TestScheduleQueue(t *testing.T) {
	t.Parallel()
	s := armed(func(s *perdure.Schedule) { s.Overlap = perdure.OverlapQueue })
	rules := perdure.DefaultScheduleRules()
	look := func(now time.Time, busy bool) perdure.ScheduleStep {
		step := s.Step(hourly(), now, busy, rules)
		s = step.Schedule
		return step
	}

	held := look(clock(1, 13, 0), true)
	still := look(clock(1, 13, 30), true)
	skipped := look(clock(1, 14, 0), true)
	fired := look(clock(1, 14, 20), false)
	after := look(clock(1, 14, 21), false)

	if held.Outcome != perdure.FireQueued || still.Outcome != "" || !still.Held || !s.DueAt().Equal(clock(1, 15, 0)) {
		t.Errorf("got %v, %v, due %s", held, still, s.DueAt())
	}
	if skipped.Outcome != perdure.SkippedOverlap || fired.Outcome != perdure.Fired || !fired.Nominal.Equal(clock(1, 13, 0)) || after.Outcome != "" {
		t.Errorf("got %v, %v, %v", skipped, fired, after)
	}
}

// TestClockJump is SC18: back, no nominal time fires twice; forward, they are missed.
func TestClockJump(t *testing.T) {
	t.Parallel()
	s, rules := armed(nil), perdure.DefaultScheduleRules()
	first := s.Step(hourly(), clock(1, 13, 0), false, rules)

	back := first.Schedule.Step(hourly(), clock(1, 11, 0), false, rules)
	again := first.Schedule.Step(hourly(), clock(1, 13, 0), false, rules)
	forward := first.Schedule.Step(hourly(), clock(3, 13, 30), false, rules)

	if first.Outcome != perdure.Fired || back.Outcome != "" || again.Outcome != "" {
		t.Errorf("got %v, %v, %v: want one fire", first.Outcome, back.Outcome, again.Outcome)
	}
	if forward.Outcome != perdure.Fired || forward.Merged != 47 || !forward.Nominal.Equal(clock(3, 13, 0)) {
		t.Errorf("got %+v, want one fire for 48", forward)
	}
}

// TestOneShot fires once and is disabled in the same step (SC15).
func TestOneShot(t *testing.T) {
	t.Parallel()
	at := clock(1, 13, 0)
	timing := perdure.OnceAt(at)
	made := perdure.Schedule{ID: "sched_1", Session: sessionID, At: at, Action: perdure.ScheduleAction{Message: "x"}}.WithDefaults(perdure.DefaultScheduleRules())
	s := made.Arm(timing, clock(1, 13, 1)) // a little late: it fires at once (SC11)

	fired := s.Step(timing, clock(1, 13, 1), false, perdure.DefaultScheduleRules())

	if fired.Outcome != perdure.Fired || fired.Schedule.Enabled || !fired.Schedule.DueAt().IsZero() || fired.Schedule.Count != 1 {
		t.Errorf("got %+v", fired)
	}
	if err := made.CheckTiming(timing, clock(1, 13, 2), perdure.DefaultScheduleRules()); !errors.Is(err, perdure.Invalid) {
		t.Errorf("two minutes late: got %v, want Invalid", err)
	}
	if err := made.CheckTiming(timing, clock(1, 13, 1), perdure.DefaultScheduleRules()); err != nil {
		t.Errorf("a minute late: got %v", err)
	}
}

// TestMissedYears: a schedule that was not inspected for years is handled quickly.
func TestMissedYears(t *testing.T) {
	t.Parallel()
	for _, policy := range []perdure.MissedPolicy{perdure.MissedOne, perdure.MissedSkip, perdure.MissedAll} {
		s := armed(func(s *perdure.Schedule) { s.Missed = policy })
		now := clock(1, 13, 30).AddDate(9, 0, 0)

		step := s.Step(hourly(), now, false, perdure.DefaultScheduleRules())

		last := now.Truncate(time.Hour)
		if policy == perdure.MissedAll {
			last = last.Add(-24 * time.Hour) // the rest is inside the window
		}
		if !step.Nominal.Equal(last) || step.Merged < 9_999 {
			t.Errorf("%s: got %s for %d, want %s", policy, step.Nominal, step.Merged, last)
		}
	}
}

// TestNoStampede is SC13 and SC20: whatever was missed, a policy makes up for at most 100.
func TestNoStampede(t *testing.T) {
	t.Parallel()
	s := armed(func(s *perdure.Schedule) { s.Missed, s.Window = perdure.MissedAll, 365*24*time.Hour })
	now, fired := clock(1, 12, 30).AddDate(0, 1, 0), 0
	for {
		step := s.Step(hourly(), now, false, perdure.DefaultScheduleRules())
		if step.Outcome == "" {
			break
		}
		if step.Outcome == perdure.Fired {
			fired++
		}
		s = step.Schedule
	}
	if fired != 100 || !s.NextAt.After(now) {
		t.Errorf("got %d fires, next %s", fired, s.NextAt)
	}
}

// TestEveryNominalTimeOnce is PR8: over a random timeline of ups and downs each nominal time has
// one outcome, alone or counted, and what fires is what a slow model lets fire.
func TestEveryNominalTimeOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rules := perdure.DefaultScheduleRules()
		rules.MaxCatchup = rapid.IntRange(1, 10).Draw(t, "catch-up")
		s := armed(func(s *perdure.Schedule) {
			s.Missed = rapid.SampledFrom([]perdure.MissedPolicy{"one", "skip", "all"}).Draw(t, "missed")
			s.Overlap = rapid.SampledFrom([]perdure.OverlapPolicy{"skip", "allow", "queue", "replace"}).Draw(t, "overlap")
			s.Jitter = rapid.SampledFrom([]time.Duration{0, 10 * time.Minute, 30 * time.Minute}).Draw(t, "jitter")
			s.Window = rapid.SampledFrom([]time.Duration{time.Hour, 5 * time.Hour, 24 * time.Hour}).Draw(t, "window")
		})
		now, decided, outcomes := clock(1, 12, 0), clock(1, 12, 0), map[time.Time]perdure.FireOutcome{}
		for range rapid.IntRange(1, 30).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "minutes")) * time.Minute)
			busy := rapid.Bool().Draw(t, "busy")
			for steps := 0; ; steps++ {
				step := s.Step(hourly(), now, busy, rules)
				if step.Outcome == "" {
					break
				}
				if steps > 500 {
					t.Fatal("it has no end")
				}
				known, again := outcomes[step.Nominal]
				if again && !(known == perdure.FireQueued && step.Outcome == perdure.Fired) {
					t.Fatalf("%s is %s and then %s", step.Nominal, known, step.Outcome)
				}
				if !again { // it stands for all since the one before
					if n := int(step.Nominal.Sub(decided) / time.Hour); n != step.Merged+1 {
						t.Fatalf("%s stands for %d, want %d", step.Nominal, step.Merged+1, n)
					}
					decided = step.Nominal
				}
				if step.Nominal.After(now) {
					t.Fatalf("%s fires at %s", step.Nominal, now)
				}
				if busy && step.Outcome == perdure.Fired && s.Overlap != perdure.OverlapAllow {
					t.Fatalf("%s fires beside the former one, with %s", step.Nominal, s.Overlap)
				}
				if s.Missed == perdure.MissedSkip && step.Outcome == perdure.Fired && !again && now.Sub(s.NextAt) > rules.Grace {
					t.Fatalf("%s was missed and fires at %s", step.Nominal, now)
				}
				outcomes[step.Nominal], s = step.Outcome, step.Schedule
			}
			if decided.Add(time.Hour+s.Jitter).Before(now) && !(busy && s.Missed == perdure.MissedAll) {
				t.Fatalf("at %s everything up to %s is decided", now, decided)
			}
		}
	})
}

func TestScheduleCheck(t *testing.T) {
	t.Parallel()
	good := armed(nil)
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for reason, spoil := range map[string]func(*perdure.Schedule){
		"the id or":                func(s *perdure.Schedule) { s.ID = "" },
		"must include exactly":     func(s *perdure.Schedule) { s.Cron = "" },
		"must not include both":    func(s *perdure.Schedule) { s.At = clock(1, 1, 1) },
		"one, skip or all":         func(s *perdure.Schedule) { s.Missed = "none" },
		"allow, queue":             func(s *perdure.Schedule) { s.Overlap = "" },
		"not be negative":          func(s *perdure.Schedule) { s.Jitter = -1 },
		"a message or a tool":      func(s *perdure.Schedule) { s.Action.Tool = "bash" },
		"only for a tool":          func(s *perdure.Schedule) { s.Action.Args = []byte(`{}`) },
		"a title can have at most": func(s *perdure.Schedule) { s.Title = strings.Repeat("x", 201) },
		"must be either":           func(s *perdure.Schedule) { s.Action = perdure.ScheduleAction{} },
		"at most half":             func(s *perdure.Schedule) { s.Jitter = 31 * time.Minute },
		"must lie between":         nil,
		"does not fire in the n":   nil,
	} {
		s, timing, rules := good, hourly(), perdure.DefaultScheduleRules()
		switch reason {
		case "must lie between":
			timing.Interval = time.Minute
		case "does not fire in the n":
			timing.Next = func(time.Time) (time.Time, bool) { return time.Time{}, false }
		default:
			spoil(&s)
		}
		err := s.Check()
		if err == nil {
			err = s.CheckTiming(timing, clock(1, 12, 0), rules)
		}
		if !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), reason) {
			t.Errorf("got %v, want a refusal that says %q", err, reason)
		}
	}
}

// TestMessageFate follows a message into its turn.
func TestMessageFate(t *testing.T) {
	t.Parallel()
	start := perdure.Event{Turn: "turn_1", Fact: perdure.TurnStarted{TurnID: "turn_1", MessageID: "message_1"}}
	input := perdure.Event{Turn: "turn_2", Fact: perdure.ReasonStarted{Inputs: []perdure.MessageID{"message_1"}}}
	for name, c := range map[string]struct {
		events        []perdure.Event
		ended, failed bool
	}{
		"waits":     {nil, false, false},
		"runs":      {[]perdure.Event{start}, false, false},
		"completed": {[]perdure.Event{start, {Turn: "turn_1", Fact: perdure.TurnCompleted{}}}, true, false},
		"failed":    {[]perdure.Event{start, {Turn: "turn_1", Fact: perdure.TurnFailed{}}}, true, true},
		"other":     {[]perdure.Event{start, {Turn: "turn_0", Fact: perdure.TurnFailed{}}}, false, false},
		"taken":     {[]perdure.Event{input, {Turn: "turn_2", Fact: perdure.TurnCanceled{}}}, true, false},
	} {
		ended, failed := perdure.MessageOutcome(c.events, "message_1")
		if ended != c.ended || failed != c.failed {
			t.Errorf("%s: got %t, %t", name, ended, failed)
		}
	}
}
