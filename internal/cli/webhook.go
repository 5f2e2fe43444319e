package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/webhook"
)

type webhookCommand struct {
	Create     webhookCreate     `cmd:"" help:"Send what happens from now on to a URL, signed."`
	List       webhookList       `cmd:"" help:"List webhooks, in the order of their making."`
	Show       webhookShow       `cmd:"" help:"Show a webhook."`
	Change     webhookChange     `cmd:"" help:"Change what a webhook is sent, switch it on or off, or give it another secret."`
	Test       webhookTest       `cmd:"" help:"Send a ping, once, and say what the receiver answered."`
	Deliveries webhookDeliveries `cmd:"" help:"List what was sent, or is to be, the newest first, with each try."`
	Redeliver  webhookRedeliver  `cmd:"" help:"Send a delivery again, under the same id."`
	Delete     webhookDelete     `cmd:"" help:"Delete a webhook, with its deliveries."`
}

type webhookCreate struct {
	URL     string   `arg:"" name:"url" help:"Where to. Private addresses are refused, unless egress allow --webhook lists them."`
	Type    []string `help:"Only this type of event; task.* is all that begin with task. Can be given several times. Default: all that can be sent." placeholder:"TYPE"`
	Body    string   `help:"Send the ids of an event, or the whole of it: id or snapshot." placeholder:"BODY" enum:"id,snapshot" default:"id"`
	Session string   `help:"Only events of this session." placeholder:"ID"`
	Label   []string `help:"Only events of sessions with this label: KEY, or KEY=VALUE. Given several times, all must hold." placeholder:"LABEL" sep:"none"`
	DryRun  bool     `help:"Only say what would be done."`
	output
}

// Run makes a webhook and shows its secret, once.
func (c *webhookCreate) Run(ctx context.Context, a *app) error {
	if err := errors.Join(c.reveals(), c.suits(webhook.Made{})); err != nil {
		return err
	}
	terms, err := termsOf(c.Label)
	if err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		w := webhook.Webhook{URL: c.URL, Types: c.Type, Body: webhook.Body(c.Body), Labels: terms, Owner: operator}
		if c.Session != "" {
			s, err := a.session(ctx, eng, c.Session)
			if err != nil {
				return err
			}
			w.Session = s.ID
		}
		if c.DryRun {
			a.say("would send %s to %s", a.line(sends(w), 300), a.line(w.URL, 300))
			return nil
		}
		made, err := eng.CreateWebhook(ctx, w)
		if err != nil {
			return err
		}
		a.say("made %s; keep its secret now: it is not shown again (webhook change --rotate makes another). Try it with: %s webhook test %s%s", made.ID, program, a.place(), made.ID)
		return c.show(ctx, a, shown{string(made.ID), made, func() { a.fields(append(a.webhookFields(made.Webhook), field{"secret", cell{text: made.Secret}})...) }})
	})
}

type webhookList struct{ output }

// Run lists webhooks.
func (c *webhookList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		all, err := eng.Webhooks(ctx)
		if err != nil {
			return fmt.Errorf("list webhooks: %w", err)
		}
		return listing[webhook.Webhook]{
			noun: "webhooks",
			head: []string{"WEBHOOK", "STATE", "FAILURES", "SENDS", "URL"},
			name: func(w webhook.Webhook) string { return string(w.ID) },
			row: func(w webhook.Webhook) []cell {
				return []cell{{string(w.ID), bold}, {webhookState(w), webhookColor(w)}, {text: fmt.Sprint(w.Failures)}, {text: sends(w)}, {text: w.URL}}
			},
		}.print(ctx, a, c.output, all)
	})
}

type webhookShow struct {
	Webhook string `arg:"" help:"Its id, or a unique beginning of it, or its URL."`
	output
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
	Webhook string   `arg:"" help:"Its id, or a unique beginning of it, or its URL."`
	URL     string   `name:"url" help:"Send there instead." placeholder:"URL"`
	Type    []string `help:"Send only this type instead; * is all that can be sent. Can be given several times." placeholder:"TYPE"`
	Body    string   `help:"Send the ids of an event, or the whole of it: id or snapshot." placeholder:"BODY" enum:",id,snapshot" default:""`
	Label   []string `help:"Send only events of sessions with this label instead; * is of all. Can be given several times." placeholder:"LABEL" sep:"none"`
	Enable  bool     `help:"Send what happens from now on, and what was queued before." xor:"on"`
	Disable bool     `help:"Send nothing." xor:"on"`
	Rotate  bool     `help:"Give it another secret and show that, once. The former one signs along for a day."`
	DryRun  bool     `help:"Only say what would be done."`
	output
}

// change is what the flags ask for.
func (c *webhookChange) change() (change webhook.Change, err error) {
	if len(c.Label) > 0 {
		if len(c.Label) == 1 && c.Label[0] == "*" {
			c.Label = nil
		}
		terms, err := termsOf(c.Label)
		if err != nil {
			return change, err
		}
		terms = append(perdure.LabelFilter{}, terms...) // none is [], which is not: as it is
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
	if err := c.suits(webhook.Made{}); err != nil {
		return err
	}
	if err := c.reveals(); c.Rotate && err != nil {
		return err
	}
	change, err := c.change()
	if err != nil {
		return err
	}
	if change == (webhook.Change{}) && !c.Rotate {
		return misuse("nothing is to change", "give --url, --type, --body, --label, --enable, --disable or --rotate")
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		w, err := a.webhook(ctx, eng, c.Webhook)
		if err != nil {
			return err
		}
		if c.DryRun {
			next := change.On(w)
			a.say("would be %s, and send %s to %s", webhookState(next), a.line(sends(next), 300), a.line(next.URL, 300))
			return next.Check()
		}
		made := webhook.Made{Webhook: w}
		if change != (webhook.Change{}) {
			made.Webhook, err = eng.ChangeWebhook(ctx, w.ID, change)
		}
		if err == nil && c.Rotate {
			if made, err = eng.RotateWebhook(ctx, w.ID); err != nil && change != (webhook.Change{}) {
				err = fmt.Errorf("it was changed, and has its old secret: %w", err)
			}
		}
		if err != nil {
			return err
		}
		all := a.webhookFields(made.Webhook)
		if made.Secret != "" {
			all = append(all, field{"secret", cell{text: made.Secret}})
		}
		return c.show(ctx, a, shown{string(made.ID), made, func() { a.fields(all...) }})
	})
}

type webhookTest struct {
	Webhook string `arg:"" help:"Its id, or a unique beginning of it, or its URL."`
	DryRun  bool   `help:"Only say what would be done."`
	output
}

// testTime is how long a ping may take, with its place behind others.
const testTime = 30 * time.Second

// Run sends a ping and waits for what became of it. One that was not taken is exit code 1.
func (c *webhookTest) Run(ctx context.Context, a *app) error {
	if err := c.suits(webhook.Delivery{}); err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		w, err := a.webhook(ctx, eng, c.Webhook)
		if err != nil {
			return err
		}
		if c.DryRun {
			a.say("would send a ping to %s", a.line(w.URL, 300))
			return nil
		}
		var d webhook.Delivery
		err = turning(ctx, eng, func(ctx context.Context) error {
			d, err = eng.TestWebhook(ctx, w.ID)
			if err == nil {
				d, err = tried(ctx, eng, d)
			}
			return err
		})
		if err != nil {
			return err
		}
		if err := c.show(ctx, a, shown{string(d.ID), d, func() { a.tellDelivery(d) }}); err != nil || d.State == webhook.Delivered {
			return err
		}
		return exit(exitError)
	})
}

// tried waits until a delivery has ended, or for testTime.
func tried(ctx context.Context, eng Engine, d webhook.Delivery) (webhook.Delivery, error) {
	ctx, stop := context.WithTimeout(ctx, testTime)
	defer stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		all, err := eng.WebhookDeliveries(ctx, d.Webhook, 20)
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
				return d, fmt.Errorf("%w: nobody sent it within %s; it stays queued", perdure.Unavailable, testTime)
			}
			return d, context.Cause(ctx)
		}
	}
}

type webhookDeliveries struct {
	Webhook string `arg:"" help:"Its id, or a unique beginning of it, or its URL."`
	Limit   int    `help:"How many; 0 for all." placeholder:"N" default:"20"`
	output
}

// Run lists deliveries.
func (c *webhookDeliveries) Run(ctx context.Context, a *app) error {
	if c.Limit < 0 {
		return misuse(fmt.Sprintf("--limit %d", c.Limit), "give 0 for all, or how many")
	}
	return a.read(ctx, func(eng Engine) error {
		w, err := a.webhook(ctx, eng, c.Webhook)
		if err != nil {
			return err
		}
		all, err := eng.WebhookDeliveries(ctx, w.ID, c.Limit)
		if err != nil {
			return err
		}
		now := a.now()
		return listing[webhook.Delivery]{
			noun: "deliveries",
			head: []string{"DELIVERY", "STATE", "TYPE", "TRIES", "LAST", "NEXT"},
			name: func(d webhook.Delivery) string { return string(d.ID) },
			row: func(d webhook.Delivery) []cell {
				next := ""
				if d.State == webhook.Queued {
					next = ahead(d.DueAt, now)
				}
				return []cell{{string(d.ID), bold}, {string(d.State), deliveryColor(d)}, {text: d.Type}, {text: fmt.Sprint(d.Attempts)}, {text: lastTry(d)}, {text: next}}
			},
		}.print(ctx, a, c.output, all)
	})
}

type webhookRedeliver struct {
	Webhook  string `arg:"" help:"Its id, or a unique beginning of it, or its URL."`
	Delivery string `arg:"" help:"The id of the delivery, or a unique beginning of it."`
	DryRun   bool   `help:"Only say what would be done."`
	output
}

// Run queues a delivery anew.
func (c *webhookRedeliver) Run(ctx context.Context, a *app) error {
	if err := c.suits(webhook.Delivery{}); err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		w, err := a.webhook(ctx, eng, c.Webhook)
		if err != nil {
			return err
		}
		all, err := eng.WebhookDeliveries(ctx, w.ID, 0)
		if err != nil {
			return err
		}
		var candidates []candidate
		for _, d := range all {
			candidates = append(candidates, candidate{id: string(d.ID), about: d.Type + " " + string(d.State)})
		}
		id, err := a.kindBy("delivery", "webhook deliveries", string(w.ID)).choose(c.Delivery, candidates)
		if err != nil {
			return err
		}
		if c.DryRun {
			a.say("would send %s again to %s", id, a.line(w.URL, 300))
			return nil
		}
		d, err := eng.RedeliverWebhook(ctx, w.ID, perdure.WebhookDeliveryID(id))
		if err != nil {
			return err
		}
		a.say("queued %s; it goes out as long as %s serve or %s run works on this directory", d.ID, program, program)
		return c.show(ctx, a, shown{string(d.ID), d, func() { a.tellDelivery(d) }})
	})
}

type webhookDelete struct {
	Webhook string `arg:"" help:"Its id, or a unique beginning of it, or its URL."`
	DryRun  bool   `help:"Only say what would be done."`
	Yes     bool   `short:"y" help:"Do not ask, also on a terminal."`
	output
}

// Run deletes a webhook.
func (c *webhookDelete) Run(ctx context.Context, a *app) error {
	if err := c.suits(gone{}); err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		w, err := a.webhook(ctx, eng, c.Webhook)
		if err != nil {
			return err
		}
		if c.DryRun {
			a.say("would delete %s, with its deliveries", w.ID)
			return nil
		}
		if err := a.confirm(ctx, c.Yes, fmt.Sprintf("delete %s, with its deliveries?", w.ID)); err != nil {
			return err
		}
		if err := eng.DeleteWebhook(ctx, w.ID); err != nil {
			return err
		}
		a.say("deleted %s", w.ID)
		return c.quietly(ctx, a, string(w.ID), gone{string(w.ID), true})
	})
}

// webhook finds the webhook that was typed.
func (a *app) webhook(ctx context.Context, eng Engine, typed string) (webhook.Webhook, error) {
	all, err := eng.Webhooks(ctx)
	if err != nil {
		return webhook.Webhook{}, fmt.Errorf("list webhooks: %w", err)
	}
	var candidates []candidate
	for _, w := range all {
		candidates = append(candidates, candidate{id: string(w.ID), named: w.URL, about: w.URL})
	}
	id, err := a.kind("webhook").choose(typed, candidates)
	if err != nil {
		return webhook.Webhook{}, err
	}
	return eng.Webhook(ctx, perdure.WebhookID(id))
}

// sends says in a line what a webhook is sent.
func sends(w webhook.Webhook) string {
	what := strings.Join(w.Types, " ")
	if what == "" {
		what = "everything"
	}
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

// lastTry says in a few words what became of the last try.
func lastTry(d webhook.Delivery) string {
	if len(d.Tries) == 0 {
		return ""
	}
	last := d.Tries[len(d.Tries)-1]
	if last.Status == 0 {
		return last.Error
	}
	return fmt.Sprintf("%d in %d ms", last.Status, last.Latency)
}

// showWebhook prints a webhook.
func (o output) showWebhook(ctx context.Context, a *app, w webhook.Webhook) error {
	return o.show(ctx, a, shown{string(w.ID), w, func() { a.fields(a.webhookFields(w)...) }})
}

func (a *app) webhookFields(w webhook.Webhook) []field {
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
		{"sends", cell{text: sends(w)}},
		{"failures", cell{text: failures}},
		{"made", cell{text: moment(w.CreatedAt, now)}},
	}
}

// tellDelivery prints a delivery, a line for each try.
func (a *app) tellDelivery(d webhook.Delivery) {
	fmt.Fprintln(a.out, a.line(fmt.Sprintf("%s  %s  %s", d.ID, d.State, d.Type), 300))
	for _, t := range d.Tries {
		what := t.Error
		if t.Status != 0 {
			what = strings.TrimSpace(fmt.Sprintf("%d in %d ms  %s", t.Status, t.Latency, t.Answer))
		}
		fmt.Fprintf(a.out, "  %s  %s\n", t.At.UTC().Format(time.RFC3339), a.line(what, 300))
	}
}
