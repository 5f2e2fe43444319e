package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cron"
)

type scheduleCommand struct {
	Next scheduleNext `cmd:"" help:"Say when a cron expression fires, and what the clocks have to do with it. It needs no data directory."`
}

// coming is a fire to come, as it is printed for scripts: in UTC, and by the clock on the wall of its zone.
type coming struct {
	At    time.Time `json:"at"`
	Local string    `json:"local"`
	Clock string    `json:"clock,omitempty"`
	Note  string    `json:"note,omitempty"`
}

type scheduleNext struct {
	Cron  string    `arg:"" help:"Five fields in quotes, such as \"30 2 * * *\", or @hourly, @daily, @weekly, @monthly, @yearly."`
	TZ    string    `name:"tz" help:"The IANA time zone that it is read in." placeholder:"ZONE" default:"UTC"`
	From  time.Time `help:"Look from this moment on, RFC 3339. Default: now." placeholder:"TIME"`
	Count int       `help:"How many fires, at most 100." placeholder:"N" default:"5"`
	output
}

// Run prints the next fires.
func (c *scheduleNext) Run(ctx context.Context, a *app) error {
	spec, err := cron.Parse(c.Cron)
	if err != nil {
		return &fault{err: err, code: exitUsage, what: err.Error(), todo: "a cron expression has five fields: minute, hour, day of month, month, day of week"}
	}
	zone, err := time.LoadLocation(c.TZ)
	if err != nil || c.TZ == "" || c.TZ == "Local" {
		return &fault{err: perdure.Invalid, code: exitUsage, what: fmt.Sprintf("no time zone is called %q", c.TZ), todo: "use an IANA name, such as Europe/Berlin"}
	}
	if c.Count < 1 || c.Count > 100 {
		return &fault{err: perdure.Invalid, code: exitUsage, what: fmt.Sprintf("--count %d", c.Count), todo: "ask for 1 to 100 fires"}
	}
	from := c.From
	if from.IsZero() {
		from = time.Now()
	}
	if err := spec.CheckFires(from, zone, 0); err != nil {
		return &fault{err: err, code: exitUsage, what: err.Error(), todo: "change the days, the months or the time"}
	}
	var next []coming
	for _, f := range spec.Fires(from, zone, c.Count) {
		next = append(next, coming{At: f.At.UTC(), Local: f.At.Format(time.RFC3339), Clock: string(f.Clock), Note: f.Text})
	}
	list := listing[coming]{noun: "fires", name: func(n coming) string { return n.At.Format(time.RFC3339) }, tell: func(all []coming) {
		fmt.Fprintf(a.out, "%s in %s, from %s on:\n", a.line(c.Cron, 200), zone, from.In(zone).Format("Mon 2006-01-02 15:04 -07:00"))
		for _, n := range all {
			c.tell(a, n, zone)
		}
	}}
	return list.print(ctx, a, c.output, next)
}

// tell prints a fire: a line, and what the clocks did to it below.
func (c *scheduleNext) tell(a *app, n coming, zone *time.Location) {
	fmt.Fprintf(a.out, "  %s   (%s UTC)\n", n.At.In(zone).Format("Mon 2006-01-02 15:04 -07:00"), n.At.Format("15:04"))
	if n.Note != "" {
		fmt.Fprintf(a.out, "      %s\n", n.Note)
	}
}
