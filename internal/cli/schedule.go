package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/cron"
)

type scheduleCommand struct {
	Create   scheduleCreate   `cmd:"" help:"Create a schedule that sends a message or runs a tool."`
	List     scheduleList     `cmd:"" aliases:"ls" help:"List schedules, newest first."`
	Show     scheduleShow     `cmd:"" help:"Show a schedule."`
	Next     scheduleNext     `cmd:"" help:"Print the next fires of a cron expression or a schedule, with notes on clock changes."`
	Explain  scheduleExplain  `cmd:"" help:"Explain the past and next fires of a schedule."`
	Trigger  scheduleTrigger  `cmd:"" help:"Fire a schedule now. Its next fires do not change."`
	Pause    schedulePause    `cmd:"" help:"Pause a schedule until it is resumed."`
	Resume   scheduleResume   `cmd:"" help:"Resume a schedule. Fires that were missed meanwhile are not made up."`
	Backfill scheduleBackfill `cmd:"" help:"Fire for every missed time in a past period."`
	Delete   scheduleDelete   `cmd:"" aliases:"rm" help:"Delete a schedule and its history, and cancel what its monitor runs."`
}

// nextFire is a next fire, for -o json: in UTC, and in the time zone of the schedule.
type nextFire struct {
	At    time.Time `json:"at"`
	Local string    `json:"local"`
	Clock string    `json:"clock,omitempty"`
	Note  string    `json:"note,omitempty"`
}

type scheduleNext struct {
	Cron  string    `arg:"" name:"cron" help:"Five fields in quotes, such as \"30 2 * * *\", or @hourly, @daily, @weekly, @monthly, @yearly; or the id of a schedule or a unique prefix of it."`
	TZ    string    `name:"tz" help:"IANA time zone of a cron expression." placeholder:"ZONE" default:"UTC"`
	From  time.Time `help:"Start from this time, RFC 3339. Default: now." placeholder:"TIME"`
	Count int       `help:"Number of fires, at most 100." placeholder:"N" default:"5"`
	outputFlags
}

// maxFires is the maximum number of next fires.
const maxFires = 100

// Run prints the next fires.
func (c *scheduleNext) Run(ctx context.Context, a *app) error {
	if c.Count < 1 || c.Count > maxFires {
		return &userError{err: perdure.Invalid, code: exitUsage, message: fmt.Sprintf("--count %d", c.Count),
			hint: "give a number from 1 to 100"}
	}
	if isScheduleName(c.Cron) {
		return c.ofSchedule(ctx, a)
	}
	from := c.From
	if from.IsZero() {
		from = time.Now()
	}
	spec, zone, err := readCron(c.Cron, c.TZ, from)
	if err != nil {
		return err
	}
	return c.print(ctx, a, nextFires{c.Cron, zone, from, fires(spec, zone, from, c.Count)})
}

// isScheduleName reports whether typed is the id of a schedule rather than a cron expression.
func isScheduleName(typed string) bool { return !strings.ContainsAny(typed, " \t@*") && typed != "" }

// ofSchedule prints the next fires of a schedule.
func (c *scheduleNext) ofSchedule(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		s, err := a.schedule(ctx, eng, c.Cron)
		if err != nil {
			return err
		}
		zone, err := time.LoadLocation(s.Zone)
		if err != nil {
			return fmt.Errorf("schedule %s: %w", s.ID, err)
		}
		if !c.From.IsZero() && s.Cron != "" { // the engine always starts from now
			spec, _, err := readCron(s.Cron, s.Zone, c.From)
			if err != nil {
				return err
			}
			return c.print(ctx, a, nextFires{s.Cron, zone, c.From, fires(spec, zone, c.From, c.Count)})
		}
		next, err := eng.Schedules().NextFires(ctx, s.ID, c.Count)
		if err != nil {
			return err
		}
		if !s.Enabled {
			a.message("%s does not fire: %s. Otherwise it would fire:", s.ID, stateOf(s))
		}
		return c.print(ctx, a, nextFires{when(s), zone, time.Now(), nextFiresOf(next, zone)})
	})
}

// nextFires is a list of next fires and its starting time.
type nextFires struct {
	what string
	zone *time.Location
	from time.Time
	next []nextFire
}

func (c *scheduleNext) print(ctx context.Context, a *app, o nextFires) error {
	list := outputList[nextFire]{noun: "fires", name: func(n nextFire) string { return n.At.Format(time.RFC3339) },
		tell: func(all []nextFire) {
			fmt.Fprintf(a.out, "%s in %s, from %s:\n", a.oneLine(o.what, 200), o.zone, o.from.In(o.zone).Format(localTimeFormat))
			scheduleText{a}.printNextFires(all, o.zone)
		}}
	return list.print(ctx, a, c.outputFlags, o.next)
}

// localTimeFormat is the format of a local time.
const localTimeFormat = "Mon 2006-01-02 15:04 -07:00"

// printNextFires prints next fires: one line each, with notes on clock changes below.
func (a scheduleText) printNextFires(all []nextFire, zone *time.Location) {
	for _, n := range all {
		fmt.Fprintf(a.out, "  %s   (%s UTC)\n", n.At.In(zone).Format(localTimeFormat), n.At.Format("15:04"))
		if n.Note != "" {
			fmt.Fprintf(a.out, "      %s\n", n.Note)
		}
	}
}

// readCron parses an expression that fires after a given time.
func readCron(text, zone string, from time.Time) (cron.Spec, *time.Location, error) {
	spec, err := cron.Parse(text)
	if err != nil {
		return spec, nil, &userError{err: err, code: exitUsage, message: err.Error(),
			hint: `give five fields in quotes: minute, hour, day of month, month, day of week; "0 9 * * 1-5" is 9:00 on weekdays`}
	}
	at, err := time.LoadLocation(zone)
	if err != nil || zone == "" || zone == "Local" {
		return spec, nil, &userError{err: perdure.Invalid, code: exitUsage, message: fmt.Sprintf("unknown time zone %q", zone),
			hint: "use an IANA name, such as Europe/Berlin"}
	}
	if err := spec.CheckFires(from, at, 0); err != nil {
		return spec, nil, &userError{err: err, code: exitUsage, message: err.Error(),
			hint: "change the days, the months or the time"}
	}
	return spec, at, nil
}

func fires(spec cron.Spec, zone *time.Location, from time.Time, n int) (next []nextFire) {
	for _, f := range spec.Fires(from, zone, n) {
		next = append(next, nextFire{At: f.At.UTC(), Local: f.At.Format(time.RFC3339), Clock: string(f.Clock),
			Note: f.Text})
	}
	return next
}

func nextFiresOf(all []engine.NextFire, zone *time.Location) (next []nextFire) {
	for _, f := range all {
		next = append(next, nextFire{At: f.At.UTC(), Local: f.At.In(zone).Format(time.RFC3339), Clock: f.Clock,
			Note: f.Note})
	}
	return next
}

// when describes when a schedule fires.
func when(s perdure.Schedule) string {
	if s.Cron == "" {
		return "once at " + s.At.UTC().Format(time.RFC3339)
	}
	spec, err := cron.Parse(s.Cron)
	if err != nil {
		return s.Cron
	}
	return spec.Describe()
}

// stateOf describes the state of a schedule.
func stateOf(s perdure.Schedule) string {
	switch {
	case s.Enabled:
		return "on"
	case s.Paused != "":
		return s.Paused
	}
	return "done"
}
