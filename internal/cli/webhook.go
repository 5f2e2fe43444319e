package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/webhook"
)

type webhookCommand struct {
	Create     webhookCreate     `cmd:"" help:"Create a webhook, which sends signed events to a URL."`
	List       webhookList       `cmd:"" aliases:"ls" help:"List webhooks, newest first."`
	Show       webhookShow       `cmd:"" help:"Show a webhook."`
	Change     webhookChange     `cmd:"" help:"Change, enable, disable or rotate the secret of a webhook."`
	Test       webhookTest       `cmd:"" help:"Send a ping and show the response of the receiver."`
	Deliveries webhookDeliveries `cmd:"" help:"List deliveries with their attempts, newest first."`
	Redeliver  webhookRedeliver  `cmd:"" help:"Send a delivery again, with the same id."`
	Delete     webhookDelete     `cmd:"" aliases:"rm" help:"Delete a webhook and its deliveries."`
}

type webhookCreate struct {
	URL     string   `arg:"" name:"url" help:"URL of the receiver. Private addresses must be allowed with egress allow --webhook."`
	Type    []string `help:"Only events of this type, or task.* for all task events. Repeatable. Default: all events." placeholder:"TYPE"`
	Body    string   `help:"Content of a delivery: id (ids only) or snapshot (the full event)." placeholder:"BODY" enum:"id,snapshot" default:"id"`
	Session string   `help:"Only events of this session." placeholder:"ID"`
	Label   []string `help:"Only events of sessions with this label: KEY or KEY=VALUE. Repeatable; all must match." placeholder:"LABEL" sep:"none"`
	actFlags
}

// Run creates a webhook and shows its secret, once.
func (c *webhookCreate) Run(ctx context.Context, a *app) error {
	if err := errors.Join(c.checkShowsSecret(), c.checkFields(webhook.Created{})); err != nil {
		return err
	}
	terms, err := termsOf(c.Label)
	if err != nil {
		return err
	}
	return a.with(ctx, writesAccess(c.DryRun), func(eng Engine) error {
		w := webhook.Webhook{URL: c.URL, Types: c.Type, Body: webhook.Body(c.Body), Labels: terms, Owner: operator}
		if c.Session != "" {
			s, err := a.session(ctx, eng, c.Session)
			if err != nil {
				return err
			}
			w.Session = s.ID
		}
		if c.DryRun {
			a.message("would send %s to %s", a.oneLine(describeEvents(w), 300), a.oneLine(w.URL, 300))
			return nil
		}
		made, err := eng.Webhooks().Create(ctx, w)
		if err != nil {
			return webhookText{a}.refusal(err)
		}
		a.message("created %s; save its secret now, it is not shown again (webhook change --rotate creates a new one). Test it with: %s webhook test %s%s", made.ID, program, a.storeFlags(), made.ID)
		return c.show(ctx, a, outputObject{string(made.ID), made,
			func() {
				a.fields(append(webhookText{a}.webhookFields(made.Webhook), field{"secret", cell{text: made.Secret}})...)
			}})
	})
}

// refusedHost is how a guard says that an address is not public, and what an operator can list.
var refusedHost = regexp.MustCompile(`^(.*?)\. If this is intended, an operator can list (\S+) for this purpose`)

// refusal adds to the error of an address that is not public how to allow it for webhooks.
func (a webhookText) refusal(err error) error {
	found := refusedHost.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	todo := program + " egress allow " + a.storeFlags() + "--webhook " + quote(found[2]) + "  allows it for webhooks"
	if a.flags.Server != "" {
		todo = "on the machine of the server, with its data directory: " + program + " egress allow --webhook " + quote(found[2])
	}
	return &userError{err: err, message: found[1], hint: todo}
}

type webhookList struct{ listFlags }

// Run lists webhooks.
func (c *webhookList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		all, err := eng.Webhooks().List(ctx)
		if err != nil {
			return fmt.Errorf("list webhooks: %w", err)
		}
		if all, err = newestWithin(c.listFlags, a.now().Time, all, func(w webhook.Webhook) time.Time { return w.CreatedAt }); err != nil {
			return err
		}
		return outputList[webhook.Webhook]{
			noun: "webhooks",
			head: []string{"WEBHOOK", "STATE", "FAILURES", "SENDS", "URL"},
			name: func(w webhook.Webhook) string { return string(w.ID) },
			row: func(w webhook.Webhook) []cell {
				return []cell{{string(w.ID), bold}, {webhookState(w), webhookColor(w)}, {text: fmt.Sprint(w.Failures)},
					{text: describeEvents(w)}, {text: w.URL}}
			},
		}.print(ctx, a, c.outputFlags, all)
	})
}

type webhookShow struct {
	Webhook string `arg:"" help:"Id, unique id prefix, or URL."`
	outputFlags
}

// Run shows a webhook.
func (c *webhookShow) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		w, err := a.webhook(ctx, eng, c.Webhook)
		if err != nil {
			return err
		}
		return c.showWebhook(ctx, a, w)
	})
}

type webhookChange struct {
	Webhook string   `arg:"" help:"Id, unique id prefix, or URL."`
	URL     string   `name:"url" help:"New URL of the receiver." placeholder:"URL"`
	Type    []string `help:"New event type filter; * for all events. Repeatable." placeholder:"TYPE"`
	Body    string   `help:"New content of a delivery: id (ids only) or snapshot (the full event)." placeholder:"BODY" enum:",id,snapshot" default:""`
	Label   []string `help:"New session label filter; * for all sessions. Repeatable." placeholder:"LABEL" sep:"none"`
	Enable  bool     `help:"Enable the webhook: send new events and queued deliveries." xor:"on"`
	Disable bool     `help:"Disable the webhook." xor:"on"`
	Rotate  bool     `help:"Create a new secret and show it once. Deliveries are also signed with the old one for a day."`
	actFlags
}

// change returns the change that the flags request.
func (c *webhookChange) change() (change webhook.Patch, err error) {
	if len(c.Label) > 0 {
		if len(c.Label) == 1 && c.Label[0] == "*" {
			c.Label = nil
		}
		terms, err := termsOf(c.Label)
		if err != nil {
			return change, err
		}
		terms = append(perdure.LabelFilter{}, terms...) // an empty list removes the filter; nil would keep it
		change.Labels = &terms
	}
	if c.URL != "" {
		change.URL = &c.URL
	}
	if len(c.Type) > 0 {
		if len(c.Type) == 1 && c.Type[0] == "*" {
			c.Type = []string{}
		}
		change.Types = &c.Type
	}
	if body := webhook.Body(c.Body); body != "" {
		change.Body = &body
	}
	if c.Enable || c.Disable {
		change.Enabled = &c.Enable
	}
	return change, nil
}

// Run changes a webhook.
func (c *webhookChange) Run(ctx context.Context, a *app) error {
	if err := c.checkFields(webhook.Created{}); err != nil {
		return err
	}
	if err := c.checkShowsSecret(); c.Rotate && err != nil {
		return err
	}
	change, err := c.change()
	if err != nil {
		return err
	}
	if change == (webhook.Patch{}) && !c.Rotate {
		return usageError("there is nothing to change",
			"give --url, --type, --body, --label, --enable, --disable or --rotate")
	}
	return a.with(ctx, writesAccess(c.DryRun), func(eng Engine) error {
		w, err := a.webhook(ctx, eng, c.Webhook)
		if err != nil {
			return err
		}
		if c.DryRun {
			next := change.Apply(w)
			a.message("would be %s and send %s to %s", webhookState(next), a.oneLine(describeEvents(next), 300), a.oneLine(next.URL, 300))
			return next.Check()
		}
		made := webhook.Created{Webhook: w}
		if change != (webhook.Patch{}) {
			made.Webhook, err = eng.Webhooks().Change(ctx, w.ID, change)
		}
		if err == nil && c.Rotate {
			if made, err = eng.Webhooks().Rotate(ctx, w.ID); err != nil && change != (webhook.Patch{}) {
				err = fmt.Errorf("the webhook was changed, but its secret was not rotated: %w", err)
			}
		}
		if err != nil {
			return webhookText{a}.refusal(err)
		}
		all := webhookText{a}.webhookFields(made.Webhook)
		if made.Secret != "" {
			all = append(all, field{"secret", cell{text: made.Secret}})
		}
		return c.show(ctx, a, outputObject{string(made.ID), made, func() { a.fields(all...) }})
	})
}

type webhookTest struct {
	Webhook string `arg:"" help:"Id, unique id prefix, or URL."`
	actFlags
}

// testTime is how long a ping may take, including its time in the queue.
const testTime = 30 * time.Second

// Run sends a ping and waits for the result. It returns exit code 1 when the receiver did not
// accept it.
func (c *webhookTest) Run(ctx context.Context, a *app) error {
	return c.onWebhook(ctx, a, c.Webhook, webhook.Delivery{}, func(eng Engine, w webhook.Webhook) error {
		if c.DryRun {
			a.message("would send a ping to %s", a.oneLine(w.URL, 300))
			return nil
		}
		var d webhook.Delivery
		err := turnIsRunning(ctx, eng, func(ctx context.Context) (err error) {
			defer a.noteWait("the receiver")()
			d, err = eng.Webhooks().Test(ctx, w.ID)
			if err == nil {
				d, err = testResult(ctx, eng, d)
			}
			return err
		})
		if err != nil {
			return err
		}
		if err := c.show(ctx, a, outputObject{string(d.ID), d, func() { webhookText{a}.printDelivery(d) }}); err != nil ||
			d.State == webhook.Delivered {
			return err
		}
		return exit(exitError)
	})
}

// testResult waits until a delivery has ended, at most testTime.
func testResult(ctx context.Context, eng Engine, d webhook.Delivery) (webhook.Delivery, error) {
	ctx, stop := context.WithTimeout(ctx, testTime)
	defer stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		all, err := eng.Webhooks().Deliveries(ctx, d.Webhook, 20)
		for _, one := range all {
			if one.ID == d.ID {
				d = one
			}
		}
		if err != nil && ctx.Err() == nil || d.State != webhook.Queued {
			return d, err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				return d, fmt.Errorf("%w: the delivery was not sent within %s; it stays queued", perdure.Unavailable,
					testTime)
			}
			return d, context.Cause(ctx)
		}
	}
}

type webhookDeliveries struct {
	Webhook string `arg:"" help:"Id, unique id prefix, or URL."`
	Limit   int    `help:"Maximum number; 0 for all." placeholder:"N" default:"20"`
	Since   string `help:"Only those since this time: a duration such as 30m or 7d, a day such as 2026-01-31 (in UTC), or an RFC 3339 time." placeholder:"WHEN"`
	outputFlags
}

// list returns the flags that all lists have.
func (c *webhookDeliveries) list() listFlags { return listFlags{c.Limit, c.Since, c.outputFlags} }

func (c *webhookDeliveries) check() error { return c.list().check() }

// Run lists deliveries.
func (c *webhookDeliveries) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		w, err := a.webhook(ctx, eng, c.Webhook)
		if err != nil {
			return err
		}
		all, err := eng.Webhooks().Deliveries(ctx, w.ID, c.list().asked())
		if err != nil {
			return err
		}
		if all, err = within(c.list(), a.now().Time, all, func(d webhook.Delivery) time.Time { return d.CreatedAt }); err != nil {
			return err
		}
		now := a.now()
		return outputList[webhook.Delivery]{
			noun: "deliveries",
			head: []string{"DELIVERY", "STATE", "TYPE", "TRIES", "LAST", "NEXT"},
			name: func(d webhook.Delivery) string { return string(d.ID) },
			row: func(d webhook.Delivery) []cell {
				next := ""
				if d.State == webhook.Queued {
					next = untilText(d.DueAt, now)
				}
				return []cell{{string(d.ID), bold}, {string(d.State), deliveryColor(d)}, {text: d.Type},
					{text: fmt.Sprint(d.Attempts)}, {text: lastAttempt(d)}, {text: next}}
			},
		}.print(ctx, a, c.outputFlags, all)
	})
}

type webhookRedeliver struct {
	Webhook  string `arg:"" help:"Id, unique id prefix, or URL."`
	Delivery string `arg:"" help:"Delivery: id or unique id prefix."`
	actFlags
}

// Run queues a delivery again.
func (c *webhookRedeliver) Run(ctx context.Context, a *app) error {
	return c.onWebhook(ctx, a, c.Webhook, webhook.Delivery{}, func(eng Engine, w webhook.Webhook) error {
		all, err := eng.Webhooks().Deliveries(ctx, w.ID, 0)
		if err != nil {
			return err
		}
		d, err := pick(a.kindBy("delivery", "webhook deliveries", string(w.ID)), c.Delivery, all, func(d webhook.Delivery) candidate {
			return candidate{id: string(d.ID), description: d.Type + " " + string(d.State)}
		})
		if err != nil {
			return err
		}
		if c.DryRun {
			a.message("would send %s again to %s", d.ID, a.oneLine(w.URL, 300))
			return nil
		}
		if d, err = eng.Webhooks().Redeliver(ctx, w.ID, d.ID); err != nil {
			return err
		}
		a.message("queued %s; it is sent while %s serve or %s run is running on this data directory", d.ID, program,
			program)
		return c.show(ctx, a, outputObject{string(d.ID), d, func() { webhookText{a}.printDelivery(d) }})
	})
}

type webhookDelete struct {
	Webhook string `arg:"" help:"Id, unique id prefix, or URL."`
	deleteFlags
}

// Run deletes a webhook.
func (c *webhookDelete) Run(ctx context.Context, a *app) error {
	return c.flags().onWebhook(ctx, a, c.Webhook, deletedOutput{}, func(eng Engine, w webhook.Webhook) error {
		what := fmt.Sprintf("delete %s and its deliveries", w.ID)
		if ok, err := c.confirmed(ctx, a, what, what+"?"); !ok {
			return err
		}
		if err := eng.Webhooks().Delete(ctx, w.ID); err != nil {
			return err
		}
		a.message("deleted %s", w.ID)
		return c.showForPrograms(ctx, a, string(w.ID), deletedOutput{string(w.ID), true})
	})
}

// webhook finds a webhook by what the user typed.
func (a *app) webhook(ctx context.Context, eng Engine, typed string) (webhook.Webhook, error) {
	all, err := eng.Webhooks().List(ctx)
	if err != nil {
		return webhook.Webhook{}, fmt.Errorf("list webhooks: %w", err)
	}
	w, err := pick(a.kind("webhook"), typed, all, func(w webhook.Webhook) candidate {
		return candidate{id: string(w.ID), name: w.URL, description: w.URL}
	})
	if err != nil {
		return w, err
	}
	return eng.Webhooks().Get(ctx, w.ID)
}

// describeEvents describes what a webhook sends.
func describeEvents(w webhook.Webhook) string {
	what := strings.Join(w.Types, " ")
	what = cmp.Or(what, "everything")
	if w.Session != "" {
		what += " of " + string(w.Session)
	}
	if len(w.Labels) > 0 {
		what += " of sessions with"
		for _, term := range w.Labels {
			what += " " + string(term)
		}
	}
	return what + ", as " + string(w.Body)
}

func webhookState(w webhook.Webhook) string {
	switch {
	case w.Enabled && w.Failures > 0:
		return "failing"
	case w.Enabled:
		return "on"
	}
	return "off"
}

func webhookColor(w webhook.Webhook) color {
	switch {
	case w.Enabled && w.Failures > 0:
		return yellow
	case w.Enabled:
		return green
	}
	return dim
}

func deliveryColor(d webhook.Delivery) color {
	switch d.State {
	case webhook.Delivered:
		return green
	case webhook.Failed:
		return red
	case webhook.Queued:
		return yellow
	}
	return dim
}

// lastAttempt describes the result of the last attempt.
func lastAttempt(d webhook.Delivery) string {
	if len(d.AttemptLog) == 0 {
		return ""
	}
	last := d.AttemptLog[len(d.AttemptLog)-1]
	if last.Status == 0 {
		return last.Error
	}
	return fmt.Sprintf("%d in %d ms", last.Status, last.Latency)
}

// showWebhook prints a webhook.
func (o outputFlags) showWebhook(ctx context.Context, a *app, w webhook.Webhook) error {
	return o.show(ctx, a, outputObject{string(w.ID), w, func() { a.fields(webhookText{a}.webhookFields(w)...) }})
}

func (a webhookText) webhookFields(w webhook.Webhook) []field {
	now := a.now()
	failures := ""
	if w.Failures > 0 {
		failures = fmt.Sprintf("%d in a row, since %s", w.Failures, moment(w.FailingSince, now))
	}
	return []field{
		{"webhook", cell{string(w.ID), bold}},
		{"state", cell{webhookState(w), webhookColor(w)}},
		{"reason", cell{text: w.Disabled}},
		{"url", cell{text: w.URL}},
		{"sends", cell{text: describeEvents(w)}},
		{"failures", cell{text: failures}},
		{"created", cell{text: moment(w.CreatedAt, now)}},
	}
}

// printDelivery prints a delivery, a line for each attempt.
func (a webhookText) printDelivery(d webhook.Delivery) {
	fmt.Fprintln(a.out, a.oneLine(fmt.Sprintf("%s  %s  %s", d.ID, d.State, d.Type), 300))
	for _, t := range d.AttemptLog {
		what := t.Error
		if t.Status != 0 {
			what = strings.TrimSpace(fmt.Sprintf("%d in %d ms  %s", t.Status, t.Latency, t.Answer))
		}
		fmt.Fprintf(a.out, "  %s  %s\n", t.At.UTC().Format(time.RFC3339), a.oneLine(what, 300))
	}
}
