package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

type scheduleCreate struct {
	Cron    string        `arg:"" optional:"" name:"cron" help:"Five fields in quotes, such as \"30 7 * * 1-5\", or @hourly, @daily, @weekly, @monthly, @yearly. Without it, --at."`
	At      time.Time     `help:"Fire once, at this moment, RFC 3339." placeholder:"TIME"`
	TZ      string        `name:"tz" help:"The IANA time zone that the expression is read in." placeholder:"ZONE" default:"UTC"`
	Session string        `required:"" help:"In which session: its id, or a unique beginning of it, or its title, or last." placeholder:"ID"`
	Message string        `help:"Send this to the agent then. @FILE reads it from a file, - from stdin." placeholder:"TEXT" xor:"action"`
	Tool    string        `help:"Run this tool then, in the background and without the model." placeholder:"NAME" xor:"action"`
	Args    string        `help:"With --tool: its arguments. @FILE reads them from a file, - from stdin." placeholder:"JSON" default:"{}"`
	Title   string        `help:"A short label." placeholder:"TEXT"`
	Missed  string        `help:"What becomes of times that passed while nothing ran: one fire for all of them, skip, or all." placeholder:"POLICY" enum:"one,skip,all" default:"one"`
	Window  time.Duration `help:"With --missed all: how far back. Default: 24h." placeholder:"DURATION"`
	Overlap string        `help:"What becomes of a time while the fire before is still at work: skip, allow, queue or replace." placeholder:"POLICY" enum:"skip,allow,queue,replace" default:"skip"`
	Jitter  time.Duration `help:"Fire up to so much after the time, at most half of the shortest interval." placeholder:"DURATION"`
	Deliver string        `help:"With --tool: of which ends the session is told: all, changes (not of a result like the one before), or none." placeholder:"POLICY" enum:"all,changes,none" default:"all"`
	DryRun  bool          `help:"Only say when it would fire."`
	output
}

// preview is how many fires are shown of a new schedule.
const preview = 5

// Run makes the schedule and shows its next fires.
func (c *scheduleCreate) Run(ctx context.Context, a *app) error {
	if err := c.suits(scheduled{}); err != nil {
		return err
	}
	s, err := c.order(a)
	if err != nil {
		return err
	}
	zone := time.UTC
	if c.Cron != "" {
		if _, zone, err = readCron(c.Cron, c.TZ, time.Now()); err != nil {
			return err
		}
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		of, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		s.Session = of.ID
		if c.DryRun {
			a.say("would fire %s", when(s))
			if c.Cron != "" {
				spec, zone, err := readCron(c.Cron, c.TZ, time.Now())
				if err != nil {
					return err
				}
				a.tellComing(fires(spec, zone, time.Now(), preview), zone)
			}
			return nil
		}
		made, err := eng.CreateSchedule(ctx, s)
		if err != nil {
			return err
		}
		a.say("made %s; it fires as long as %s serve or %s run works on this directory", made.ID, program, program)
		next, err := eng.NextFires(ctx, made.ID, preview)
		if err != nil {
			return err
		}
		return c.show(ctx, a, shown{string(made.ID), asScheduled(made), func() {
			fmt.Fprintf(a.out, "%s  %s, %s\n", made.ID, when(made), made.Zone)
			a.tellComing(comings(next, zone), zone)
		}})
	})
}

// order is the schedule that was asked for, without its session.
func (c *scheduleCreate) order(a *app) (perdure.Schedule, error) {
	s := perdure.Schedule{
		Owner: operator, Title: c.Title, Cron: c.Cron, At: c.At, Zone: c.TZ, Missed: perdure.MissedPolicy(c.Missed), Window: c.Window,
		Overlap: perdure.OverlapPolicy(c.Overlap), Jitter: c.Jitter,
	}
	switch {
	case (c.Cron == "") == c.At.IsZero():
		return s, misuse("a schedule has a cron expression or --at, and not both", program+` schedule create "30 7 * * 1-5" --tz Europe/Berlin --session last --message TEXT`)
	case (c.Message == "") == (c.Tool == ""):
		return s, misuse("a schedule has --message or --tool", "--message is sent to the agent; --tool runs in the background without it")
	case c.Message != "":
		text, err := a.argument(c.Message)
		s.Action.Message = text
		return s, err
	}
	args, err := a.argument(c.Args)
	if err != nil {
		return s, err
	}
	if _, err := perdure.CanonicalJSON([]byte(args)); err != nil {
		return s, misuse("--args: "+err.Error(), "they are a JSON object, such as {\"path\": \"/\"}")
	}
	s.Action = perdure.ScheduleAction{Tool: c.Tool, Args: json.RawMessage(args), Signal: c.Deliver != "none"}
	if c.Deliver == string(perdure.DeliverChanges) {
		s.Action.Deliver = perdure.DeliverChanges
	}
	return s, nil
}
