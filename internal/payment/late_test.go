package payment_test

import (
	"context"
	"testing"
	"time"

	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// still is a store after whose commit of an attempt the process is suspended for a while.
type still struct {
	store.Store
	stands time.Duration
}

func (s still) InTx(ctx context.Context, fn func(store.Tx) error) error {
	err := s.Store.InTx(ctx, fn)
	<-time.After(s.stands)
	return err
}

// TestPaymentTooLate: an attempt that became unknown before the wallet was asked is not made, since
// it may have been resolved as not made.
func TestPaymentTooLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memoryStore())
	w.wait, w.record = 20*time.Millisecond, 20*time.Millisecond

	_, err := w.pay(w.authority(still{Store: w, stands: 60 * time.Millisecond}), w.call(w.session, "turn_1", "call_1"), order("1", "news"))

	if codeOf(err) != tool.PaymentUnknown || len(w.bank.paid()) != 0 {
		t.Errorf("got %v, and %d payments, want none", err, len(w.bank.paid()))
	}
}
