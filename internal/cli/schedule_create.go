package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/strictjson"
)

type scheduleCreate struct {
	Cron    string        `arg:"" optional:"" name:"cron" help:"Five fields in quotes, such as \"30 7 * * 1-5\", or @hourly, @daily, @weekly, @monthly, @yearly. Or use --every or --at."`
	Every   time.Duration `help:"Fire at this interval, counted from midnight: a part of an hour such as 15m, a part of a day such as 6h, or 24h." placeholder:"DURATION"`
	At      time.Time     `help:"Fire once, at this time, RFC 3339." placeholder:"TIME"`
	TZ      string        `name:"tz" help:"IANA time zone of the cron expression." placeholder:"ZONE" default:"UTC"`
	Session string        `required:"" help:"Session: id, unique id prefix, title, or last." placeholder:"ID"`
	Message string        `help:"Send this message to the agent at each fire. @FILE reads it from a file, - from stdin." placeholder:"TEXT" xor:"action"`
	Tool    string        `help:"Run this tool at each fire, in the background and without the model." placeholder:"NAME" xor:"action"`
	Args    string        `help:"With --tool: arguments of the tool. @FILE reads them from a file, - from stdin." placeholder:"JSON" default:"{}"`
	Title   string        `help:"Short title." placeholder:"TEXT"`
	Missed  string        `help:"Missed fires while nothing was running: one (a single fire for all), skip or all." placeholder:"POLICY" enum:"one,skip,all" default:"one"`
	Window  time.Duration `help:"With --missed all: how far back to fire. Default: 24h." placeholder:"DURATION"`
	Overlap string        `help:"If the previous fire is still running: skip, allow, queue or replace." placeholder:"POLICY" enum:"skip,allow,queue,replace" default:"skip"`
	Jitter  time.Duration `help:"Delay each fire randomly by up to this duration, at most half of the shortest interval." placeholder:"DURATION"`
	Deliver string        `help:"With --tool: which results the session receives: all, changes (only results that differ from the previous one) or none." placeholder:"POLICY" enum:"all,changes,none" default:"all"`
	DryRun  bool          `help:"Print when it would fire."`
	outputFlags
}

// preview is how many fires of a new schedule are shown.
const preview = 5

// Run creates the schedule and shows its next fires.
func (c *scheduleCreate) Run(ctx context.Context, a *app) error {
	if err := c.checkFields(scheduled{}); err != nil {
		return err
	}
	if err := c.readEvery(); err != nil {
		return err
	}
	s, err := c.schedule(a)
	if err != nil {
		return err
	}
	zone := time.UTC
	if c.Cron != "" {
		if _, zone, err = readCron(c.Cron, c.TZ, time.Now()); err != nil {
			return err
		}
	}
	return a.with(ctx, writesAccess(c.DryRun), func(eng Engine) error {
		of, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		s.Session = of.ID
		if c.DryRun {
			next, err := eng.Schedules().Preview(ctx, s, preview)
			if err != nil {
				return err
			}
			a.message("would fire %s", when(s))
			scheduleText{a}.printNextFires(nextFiresOf(next, zone), zone)
			return nil
		}
		made, err := eng.Schedules().Create(ctx, s)
		if err != nil {
			return err
		}
		a.message("created %s; it fires while %s serve or %s run is running on this data directory", made.ID, program,
			program)
		next, err := eng.Schedules().NextFires(ctx, made.ID, preview)
		if err != nil {
			return err
		}
		return c.show(ctx, a, outputObject{string(made.ID), asScheduled(made), func() {
			fmt.Fprintf(a.out, "%s  %s, %s\n", made.ID, when(made), made.Zone)
			scheduleText{a}.printNextFires(nextFiresOf(next, zone), zone)
		}})
	})
}

// readEvery turns --every into the cron expression that fires at these times.
func (c *scheduleCreate) readEvery() (err error) {
	switch {
	case c.Every == 0:
		return nil
	case c.Cron != "" || !c.At.IsZero():
		return usageError("--every cannot be used with a cron expression or --at", "give one of the three")
	}
	c.Cron, err = cronEvery(c.Every)
	return err
}

// cronEvery returns the cron expression of an interval. Only intervals that divide an hour or a day
// evenly have one.
func cronEvery(every time.Duration) (string, error) {
	const day = 24 * time.Hour
	switch minutes, hours := int(every/time.Minute), int(every/time.Hour); {
	case every == time.Minute:
		return "* * * * *", nil
	case every == time.Hour:
		return "0 * * * *", nil
	case every == day:
		return "0 0 * * *", nil
	case every > 0 && every < time.Hour && every%time.Minute == 0 && time.Hour%every == 0:
		return fmt.Sprintf("*/%d * * * *", minutes), nil
	case every > 0 && every < day && every%time.Hour == 0 && day%every == 0:
		return fmt.Sprintf("0 */%d * * *", hours), nil
	}
	return "", usageError(fmt.Sprintf("--every %s does not divide an hour or a day evenly", every),
		"use for instance 1m, 5m, 10m, 15m, 20m, 30m, 1h, 2h, 3h, 4h, 6h, 8h, 12h or 24h; a cron expression has other times")
}

// schedule returns the requested schedule, without its session.
func (c *scheduleCreate) schedule(a *app) (perdure.Schedule, error) {
	s := perdure.Schedule{
		Owner: operator, Title: c.Title, Cron: c.Cron, At: c.At, Zone: c.TZ, Missed: perdure.MissedPolicy(c.Missed),
		Window:  c.Window,
		Overlap: perdure.OverlapPolicy(c.Overlap), Jitter: c.Jitter,
	}
	switch {
	case (c.Cron == "") == c.At.IsZero():
		return s, usageError("give a cron expression, --every or --at",
			program+` schedule create "30 7 * * 1-5" --tz Europe/Berlin --session last --message TEXT`)
	case (c.Message == "") == (c.Tool == ""):
		return s, usageError("give either --message or --tool",
			"--message is sent to the agent; --tool runs in the background without it")
	case c.Message != "":
		text, err := a.argument(c.Message)
		s.Action.Message = text
		return s, err
	}
	args, err := a.argument(c.Args)
	if err != nil {
		return s, err
	}
	if _, err := strictjson.Canonical([]byte(args)); err != nil {
		return s, usageError("--args: "+err.Error(), "they are a JSON object, such as {\"path\": \"/\"}")
	}
	s.Action = perdure.ScheduleAction{Tool: c.Tool, Args: json.RawMessage(args), Signal: c.Deliver != "none"}
	if c.Deliver == string(perdure.DeliverChanges) {
		s.Action.Deliver = perdure.DeliverChanges
	}
	return s, nil
}
