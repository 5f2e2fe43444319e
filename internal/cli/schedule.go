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
	Create   scheduleCreate   `cmd:"" help:"Let a message be sent, or a tool be run, at moments to come."`
	List     scheduleList     `cmd:"" help:"List schedules, in the order of their making."`
	Show     scheduleShow     `cmd:"" help:"Show a schedule."`
	Next     scheduleNext     `cmd:"" help:"Say when a cron expression or a schedule fires, and what the clocks have to do with it. An expression needs no data directory."`
	Explain  scheduleExplain  `cmd:"" help:"Say what became of a schedule's times, and why, and what comes."`
	Trigger  scheduleTrigger  `cmd:"" help:"Let it fire now. What comes next stays."`
	Pause    schedulePause    `cmd:"" help:"Let it not fire until it is resumed."`
	Resume   scheduleResume   `cmd:"" help:"Let it fire from now on. What passed meanwhile is not made up for."`
	Backfill scheduleBackfill `cmd:"" help:"Fire each time of a stretch of the past for which nothing fired."`
	Delete   scheduleDelete   `cmd:"" help:"Delete it, with the record of its fires. What its monitor runs is canceled."`
}

// coming is a fire to come, as it is printed for scripts: in UTC, and by the clock on the wall of its zone.
type coming struct {
	At    time.Time `json:"at"`
	Local string    `json:"local"`
	Clock string    `json:"clock,omitempty"`
	Note  string    `json:"note,omitempty"`
}

type scheduleNext struct {
	Cron  string    `arg:"" name:"cron" help:"Five fields in quotes, such as \"30 2 * * *\", or @hourly, @daily, @weekly, @monthly, @yearly; or the id of a schedule, or a unique beginning of it."`
	TZ    string    `name:"tz" help:"The IANA time zone that an expression is read in." placeholder:"ZONE" default:"UTC"`
	From  time.Time `help:"Look from this moment on, RFC 3339. Default: now." placeholder:"TIME"`
	Count int       `help:"How many fires, at most 100." placeholder:"N" default:"5"`
	output
}

// mostComing is how many fires to come may be asked for.
const mostComing = 100

// Run prints the next fires.
func (c *scheduleNext) Run(ctx context.Context, a *app) error {
	if c.Count < 1 || c.Count > mostComing {
		return &fault{err: perdure.Invalid, code: exitUsage, what: fmt.Sprintf("--count %d", c.Count), todo: "ask for 1 to 100 fires"}
	}
	if named(c.Cron) {
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
	return c.print(ctx, a, outlook{c.Cron, zone, from, fires(spec, zone, from, c.Count)})
}

// named reports whether what was typed is the name of a schedule, and no expression.
func named(typed string) bool { return !strings.ContainsAny(typed, " \t@*") && typed != "" }

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
		if !c.From.IsZero() && s.Cron != "" { // the engine looks from now on
			spec, _, err := readCron(s.Cron, s.Zone, c.From)
			if err != nil {
				return err
			}
			return c.print(ctx, a, outlook{s.Cron, zone, c.From, fires(spec, zone, c.From, c.Count)})
		}
		next, err := eng.NextFires(ctx, s.ID, c.Count)
		if err != nil {
			return err
		}
		if !s.Enabled {
			a.say("%s does not fire: %s. It would:", s.ID, stateOf(s))
		}
		return c.print(ctx, a, outlook{when(s), zone, time.Now(), comings(next, zone)})
	})
}

// outlook is what comes, and from when on it was looked for.
type outlook struct {
	what string
	zone *time.Location
	from time.Time
	next []coming
}

func (c *scheduleNext) print(ctx context.Context, a *app, o outlook) error {
	list := listing[coming]{noun: "fires", name: func(n coming) string { return n.At.Format(time.RFC3339) }, tell: func(all []coming) {
		fmt.Fprintf(a.out, "%s in %s, from %s on:\n", a.line(o.what, 200), o.zone, o.from.In(o.zone).Format(wall))
		a.tellComing(all, o.zone)
	}}
	return list.print(ctx, a, c.output, o.next)
}

// wall is a time by the clock on the wall.
const wall = "Mon 2006-01-02 15:04 -07:00"

// tellComing prints fires to come: a line each, and what the clocks did to it below.
func (a *app) tellComing(all []coming, zone *time.Location) {
	for _, n := range all {
		fmt.Fprintf(a.out, "  %s   (%s UTC)\n", n.At.In(zone).Format(wall), n.At.Format("15:04"))
		if n.Note != "" {
			fmt.Fprintf(a.out, "      %s\n", n.Note)
		}
	}
}

// readCron reads an expression that fires after a moment.
func readCron(text, zone string, from time.Time) (cron.Spec, *time.Location, error) {
	spec, err := cron.Parse(text)
	if err != nil {
		return spec, nil, &fault{err: err, code: exitUsage, what: err.Error(), todo: `"0 9 * * 1-5" is 9:00 on every weekday: five fields in quotes, minute, hour, day of month, month, day of week`}
	}
	at, err := time.LoadLocation(zone)
	if err != nil || zone == "" || zone == "Local" {
		return spec, nil, &fault{err: perdure.Invalid, code: exitUsage, what: fmt.Sprintf("no time zone is called %q", zone), todo: "use an IANA name, such as Europe/Berlin"}
	}
	if err := spec.CheckFires(from, at, 0); err != nil {
		return spec, nil, &fault{err: err, code: exitUsage, what: err.Error(), todo: "change the days, the months or the time"}
	}
	return spec, at, nil
}

func fires(spec cron.Spec, zone *time.Location, from time.Time, n int) (next []coming) {
	for _, f := range spec.Fires(from, zone, n) {
		next = append(next, coming{At: f.At.UTC(), Local: f.At.Format(time.RFC3339), Clock: string(f.Clock), Note: f.Text})
	}
	return next
}

func comings(all []engine.NextFire, zone *time.Location) (next []coming) {
	for _, f := range all {
		next = append(next, coming{At: f.At.UTC(), Local: f.At.In(zone).Format(time.RFC3339), Clock: f.Clock, Note: f.Note})
	}
	return next
}

// when says in words when a schedule fires.
func when(s perdure.Schedule) string {
	if s.Cron == "" {
		return "once at " + s.At.UTC().Format(time.RFC3339)
	}
	spec, err := cron.Parse(s.Cron)
	if err != nil {
		return s.Cron
	}
	return spec.Words()
}

// stateOf says how a schedule stands.
func stateOf(s perdure.Schedule) string {
	switch {
	case s.Enabled:
		return "on"
	case s.Paused != "":
		return s.Paused
	}
	return "done"
}
