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

// settleTime is how long the outcome of a try may take to reach the store during shutdown.
const settleTime = 5 * time.Second

// errGone means that the event of a delivery no longer exists.
var errGone = errors.New("the event is gone")

// unsent wraps the reason why nothing was sent: a fault on this side, which must not count against
// the receiver.
type unsent struct{ error }

func (u unsent) Unwrap() error { return u.error }

// deliver carries out one try and records its outcome.
func (s *Sender) deliver(ctx context.Context, c claimedDelivery) {
	defer signal(s.freed)
	defer s.endTries([]claimedDelivery{c})
	slow := time.AfterFunc(slowAfter, func() {
		s.freeSlot(c.slot)
		signal(s.freed)
	})
	defer slow.Stop()
	began := time.Now()
	try := hook.Attempt{At: began}
	wait, err := s.post(ctx, c, &try)
	try.Latency = time.Since(began).Milliseconds()
	o := outcome{interrupted: err != nil && ctx.Err() != nil, eventGone: errors.Is(err, errGone), unsent: errors.As(err, new(unsent)), wait: wait}
	if err != nil {
		try.Error = s.cfg.Mask(err.Error())
	}
	o.try = try
	settling, stop := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer stop()
	err = s.cfg.Store.InTx(settling, func(tx store.Tx) error {
		return s.settle(tx, c.delivery, o)
	})
	if err != nil { // the delivery is due again after its lease
		s.cfg.Log.Warn("delivery outcome not recorded; the delivery will be sent again", "webhook", c.hook.ID, "delivery", c.delivery.ID, "error", err)
	}
}

// post signs and sends the body. The bytes that are signed are exactly those that are sent. If the
// receiver did not accept it, wait is how long it asks to be left alone.
func (s *Sender) post(ctx context.Context, c claimedDelivery, try *hook.Attempt) (wait time.Duration, err error) {
	body, err := s.body(ctx, c)
	if err != nil {
		return 0, unsent{err}
	}
	signature, err := s.sign(c, try.At, body)
	if err != nil {
		return 0, unsent{err}
	}
	timed, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, fmt.Errorf("no response within %s", s.cfg.Timeout))
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
		return 0, nil // the receiver has it, even if its response breaks off
	case err != nil:
		return 0, err
	}
	return retryAfter(answer.Header, time.Now()), fmt.Errorf("the receiver answered %d", answer.Status)
}

// maxWait is how long a receiver may ask to be left alone.
const maxWait = time.Hour

// retryAfter returns how long a response asks to be left alone, at most maxWait: Retry-After, in
// seconds or as a date (RFC 9110, section 10.2.3). 0: the header is absent or malformed.
func retryAfter(header map[string][]string, now time.Time) time.Duration {
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

// sign signs with the secret, and also with the former one while that is valid.
func (s *Sender) sign(c claimedDelivery, at time.Time, body []byte) (string, error) {
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
			return "", fmt.Errorf("%w secret: want whsec_ and base64", perdure.Invalid)
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

// message is the body of a delivery.
type message struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      any       `json:"data"`
}

// eventIDs is the data of an event when its content is not sent.
type eventIDs struct {
	Event   perdure.EventID   `json:"event_id"`
	Session perdure.SessionID `json:"session_id"`
	Seq     int64             `json:"seq"`
	Turn    perdure.TurnID    `json:"turn_id,omitempty"`
	Call    perdure.CallID    `json:"call_id,omitempty"`
	Task    perdure.TaskID    `json:"task_id,omitempty"`
}

// pingData is the data of a test.
type pingData struct {
	Webhook perdure.WebhookID `json:"webhook_id"`
}

// body returns the body of a delivery, which is the same with every try.
func (s *Sender) body(ctx context.Context, c claimedDelivery) ([]byte, error) {
	d := c.delivery
	m := message{Type: d.Type, Timestamp: d.CreatedAt, Data: pingData{d.Webhook}}
	if d.Type != hook.Ping {
		events, err := store.Read(ctx, s.cfg.Store, func(r store.Reader) ([]perdure.Event, error) {
			return r.Journal().Events(d.Session, d.Seq-1, 1)
		})
		if err != nil {
			return nil, fmt.Errorf("read the event: %w", err)
		}
		if len(events) == 0 || events[0].ID != d.Event {
			return nil, errGone
		}
		e := events[0]
		m.Timestamp, m.Data = e.At, eventIDs{e.ID, e.Session, e.Seq, e.Turn, e.Call, e.Task}
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

// outcome is the outcome of a try.
type outcome struct {
	try         hook.Attempt
	interrupted bool          // this process is shutting down, and the result is not known
	eventGone   bool          // the event no longer exists
	wait        time.Duration // that the receiver asked for

	unsent bool // this side could not send it
}

// settle records the outcome of a try. A delivery that another process claimed meanwhile, or that
// was queued again, is left unchanged.
func (s *Sender) settle(tx store.Tx, was hook.Delivery, o outcome) error {
	w, err := tx.Webhooks().Get(was.Webhook)
	if errors.Is(err, perdure.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	d, err := tx.Webhooks().Delivery(was.ID)
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
	if o.interrupted {
		d.Attempts, d.DueAt = d.Attempts-1, now
		return tx.Webhooks().UpdateDelivery(d)
	}
	d = d.WithAttempt(o.try)
	switch delay, more := hook.Delay(d.Attempts, string(d.ID)); {
	case o.eventGone:
		d.State, d.EndedAt = hook.Dropped, now
		return tx.Webhooks().UpdateDelivery(d)
	case o.try.Error == "":
		d.State, d.EndedAt = hook.Delivered, now
	case d.Type == hook.Ping || o.try.Status == http.StatusGone || !more:
		d.State, d.EndedAt = hook.Failed, now
	default:
		d.DueAt = now.Add(max(delay, o.wait)) // a Retry-After never makes it sooner
	}
	if err := tx.Webhooks().UpdateDelivery(d); err != nil || o.unsent {
		return err
	}
	next := s.countTry(w, d, o.try, now)
	if next.Failures == w.Failures && next.Enabled == w.Enabled {
		return nil
	}
	_, err = tx.Webhooks().Put(next)
	return err
}

// countTry counts a try for its webhook, and disables a webhook whose receiver has stopped
// accepting deliveries. A test counts only if the receiver answered it.
func (s *Sender) countTry(w store.Webhook, d hook.Delivery, try hook.Attempt, now time.Time) store.Webhook {
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
	case d.State == hook.Failed && w.ShouldDisable():
		w.Enabled, w.Disabled = false, fmt.Sprintf("%d tries in a row failed, and a delivery ran out of tries; last error: %s", w.Failures, cutLine(try.Error))
	default:
		return w
	}
	s.cfg.Log.Warn("webhook disabled", "webhook", w.ID, "reason", w.Disabled) // the URL may hold a key
	return w
}

func cutLine(text string) string {
	if len(text) > 200 {
		return string(bytes.ToValidUTF8([]byte(text[:200]), nil)) + "…"
	}
	return text
}
