package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	hook "github.com/perdure/perdure/webhook"
)

// settleTime is how long the outcome of a try may take into the store once the work is ending.
const settleTime = 5 * time.Second

// errGone says that what a delivery is to tell is not there any more.
var errGone = errors.New("the event is gone")

// unsent is why nothing was sent: a fault of this side, which its receiver has nothing to do with.
type unsent struct{ error }

func (u unsent) Unwrap() error { return u.error }

// deliver carries out one try and notes what became of it.
func (s *Sender) deliver(ctx context.Context, c claimed) {
	defer ring(s.freed)
	defer s.release([]claimed{c})
	slow := time.AfterFunc(slowAfter, func() {
		s.leave(c.place)
		ring(s.freed)
	})
	defer slow.Stop()
	began := time.Now()
	try := hook.Try{At: began}
	wait, err := s.post(ctx, c, &try)
	try.Latency = time.Since(began).Milliseconds()
	o := outcome{cut: err != nil && ctx.Err() != nil, gone: errors.Is(err, errGone), unsent: errors.As(err, new(unsent)), wait: wait}
	if err != nil {
		try.Error = s.cfg.Mask(err.Error())
	}
	o.try = try
	settling, stop := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer stop()
	err = s.cfg.Store.InTx(settling, func(tx store.Tx) error {
		return s.settle(tx, c.delivery, o)
	})
	if err != nil { // it is due again after its lease
		s.cfg.Log.Warn("the outcome of a delivery was not noted, so it is sent again", "webhook", c.hook.ID, "delivery", c.delivery.ID, "error", err)
	}
}

// post signs and sends. What is signed is what is sent, byte for byte (S20). It says how long a receiver that did not take it
// asks to be left alone.
func (s *Sender) post(ctx context.Context, c claimed, try *hook.Try) (wait time.Duration, err error) {
	body, err := s.body(ctx, c)
	if err != nil {
		return 0, unsent{err}
	}
	signature, err := s.sign(c, try.At, body)
	if err != nil {
		return 0, unsent{err}
	}
	timed, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, fmt.Errorf("no answer within %s", s.cfg.Timeout))
	defer cancel()
	answer, err := s.cfg.Egress.Do(timed, perdure.WebRequest{
		Method: http.MethodPost, URL: c.hook.URL, Body: body, Purpose: hook.Purpose, NoRedirects: true, MaxBytes: hook.MaxAnswerBytes,
		Header: map[string][]string{
			"Content-Type": {"application/json"}, "User-Agent": {"Perdure-Webhook"},
			"Webhook-Id": {string(c.delivery.ID)}, "Webhook-Timestamp": {strconv.FormatInt(try.At.Unix(), 10)}, "Webhook-Signature": {signature},
		},
	})
	try.Status, try.Answer = answer.Status, s.cfg.Mask(string(bytes.ToValidUTF8(answer.Body, []byte("?"))))
	switch {
	case answer.Status >= 200 && answer.Status <= 299:
		return 0, nil // it has it, also where its answer breaks off
	case err != nil:
		return 0, err
	}
	return askedWait(answer.Header, time.Now()), fmt.Errorf("the receiver answered %d", answer.Status)
}

// maxWait is how long a receiver may ask to be left alone.
const maxWait = time.Hour

// askedWait is how long an answer asks to be left alone, at most maxWait: by Retry-After, as seconds or as a moment (RFC 9110,
// 10.2.3). 0: it does not ask, or in no such way.
func askedWait(header map[string][]string, now time.Time) time.Duration {
	asked := http.Header(header).Get("Retry-After")
	if at, err := http.ParseTime(asked); err == nil {
		return min(max(at.Sub(now), 0), maxWait)
	}
	seconds, err := strconv.ParseUint(asked, 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxWait)
}

// sign signs with the secret, and with the former one while that is still good.
func (s *Sender) sign(c claimed, at time.Time, body []byte) (string, error) {
	all := [][]byte{c.hook.Sealed}
	if len(c.hook.Former) > 0 && at.Before(c.hook.FormerUntil) {
		all = append(all, c.hook.Former)
	}
	text := ""
	for _, sealed := range all {
		secret, err := s.cfg.Open(c.hook.ID, sealed)
		if err != nil {
			return "", fmt.Errorf("open the secret: %w", err)
		}
		signer, err := standard.NewWebhook(secret)
		if err != nil {
			return "", fmt.Errorf("%w secret: it is no whsec_ of base64", perdure.Invalid)
		}
		one, err := signer.Sign(string(c.delivery.ID), at, body)
		if err != nil {
			return "", fmt.Errorf("sign: %w", err)
		}
		if text != "" {
			text += " "
		}
		text += one
	}
	return text, nil
}

// message is what is sent.
type message struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      any       `json:"data"`
}

// ids is what is sent of an event without its content.
type ids struct {
	Event   perdure.EventID   `json:"event_id"`
	Session perdure.SessionID `json:"session_id"`
	Seq     int64             `json:"seq"`
	Turn    perdure.TurnID    `json:"turn_id,omitempty"`
	Call    perdure.CallID    `json:"call_id,omitempty"`
	Task    perdure.TaskID    `json:"task_id,omitempty"`
}

// pinged is what a test sends.
type pinged struct {
	Webhook perdure.WebhookID `json:"webhook_id"`
}

// body is what a delivery sends, the same on each try.
func (s *Sender) body(ctx context.Context, c claimed) ([]byte, error) {
	d := c.delivery
	m := message{Type: d.Type, Timestamp: d.CreatedAt, Data: pinged{d.Webhook}}
	if d.Type != hook.Ping {
		var events []perdure.Event
		err := s.cfg.Store.View(ctx, func(r store.Reader) (err error) {
			events, err = r.Events(d.Session, d.Seq-1, 1)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the event: %w", err)
		}
		if len(events) == 0 || events[0].ID != d.Event {
			return nil, errGone
		}
		e := events[0]
		m.Timestamp, m.Data = e.At, ids{e.ID, e.Session, e.Seq, e.Turn, e.Call, e.Task}
		if c.hook.Body == hook.BodySnapshot {
			text, err := perdure.EncodeEvent(s.cfg.Show(e))
			if err != nil {
				return nil, err
			}
			m.Data = json.RawMessage(text)
		}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return nil, fmt.Errorf("write the body: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// outcome is what became of a try.
type outcome struct {
	try  hook.Try
	cut  bool          // this process ends: nothing is known of it
	gone bool          // there is nothing to send
	wait time.Duration // that the receiver asks for

	unsent bool // this side could not send it
}

// settle notes what became of a try. A delivery that somebody else claimed meanwhile, or queued anew, is left to them.
func (s *Sender) settle(tx store.Tx, was hook.Delivery, o outcome) error {
	w, err := tx.Webhook(was.Webhook)
	if errors.Is(err, perdure.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	d, err := tx.HookDelivery(was.ID)
	switch {
	case errors.Is(err, perdure.NotFound):
		return nil
	case err != nil:
		return err
	case d.State != hook.Queued || d.Attempts != was.Attempts || d.DueAt.UnixMicro() != was.DueAt.UnixMicro():
		return nil
	}
	now := tx.Now()
	d.Sending = false
	if o.cut {
		d.Attempts, d.DueAt = d.Attempts-1, now
		return tx.ChangeHookDelivery(d)
	}
	d = d.With(o.try)
	switch delay, more := hook.Delay(d.Attempts, string(d.ID)); {
	case o.gone:
		d.State, d.EndedAt = hook.Dropped, now
		return tx.ChangeHookDelivery(d)
	case o.try.Error == "":
		d.State, d.EndedAt = hook.Delivered, now
	case d.Type == hook.Ping || o.try.Status == http.StatusGone || !more:
		d.State, d.EndedAt = hook.Failed, now
	default:
		d.DueAt = now.Add(max(delay, o.wait)) // never sooner than without its word
	}
	if err := tx.ChangeHookDelivery(d); err != nil || o.unsent {
		return err
	}
	next := s.judge(w, d, o.try, now)
	if next.Failures == w.Failures && next.Enabled == w.Enabled {
		return nil
	}
	_, err = tx.PutWebhook(next)
	return err
}

// judge counts a try for its webhook, and switches off one that does not take anything any more. A test counts only when it is
// answered.
func (s *Sender) judge(w store.Webhook, d hook.Delivery, try hook.Try, now time.Time) store.Webhook {
	switch {
	case try.Error == "":
		w.Failures, w.FailingSince = 0, time.Time{}
		return w
	case d.Type == hook.Ping && try.Status != http.StatusGone:
		return w
	}
	if w.Failures++; w.Failures == 1 {
		w.FailingSince = now
	}
	switch {
	case !w.Enabled:
		return w
	case try.Status == http.StatusGone:
		w.Enabled, w.Disabled = false, "the receiver answered 410 Gone"
	case d.State == hook.Failed && w.GivesUp():
		w.Enabled, w.Disabled = false, fmt.Sprintf("%d tries in a row failed, and all of a delivery's; the last one: %s", w.Failures, cutLine(try.Error))
	default:
		return w
	}
	s.cfg.Log.Warn("a webhook was switched off", "webhook", w.ID, "why", w.Disabled) // its URL may have a key in it
	return w
}

func cutLine(text string) string {
	if len(text) > 200 {
		return string(bytes.ToValidUTF8([]byte(text[:200]), nil)) + "…"
	}
	return text
}
