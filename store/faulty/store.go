package faulty

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

var _ store.Store = (*Store)(nil)

// InTx is InTx of store.Store, with the faults of the plan.
func (s *Store) InTx(ctx context.Context, fn func(store.Tx) error) error {
	return call0(s.handle, "InTx", func() error {
		ctx, release := s.handle.mortal(ctx)
		defer release()
		return s.inner.InTx(ctx, s.handle.inTx(fn))
	})
}

// View is View of store.Store, with the faults of the plan.
func (s *Store) View(ctx context.Context, fn func(store.Reader) error) error {
	return call0(s.handle, "View", func() error {
		ctx, release := s.handle.mortal(ctx)
		defer release()
		return s.inner.View(ctx, s.handle.inView(fn))
	})
}

// Watch is Watch of store.Store, with the faults of the plan.
func (s *Store) Watch(ctx context.Context, id perdure.SessionID, after int64, fn func(store.Frame) error) error {
	return call0(s.handle, "Watch", func() error {
		ctx, release := s.handle.mortal(ctx)
		defer release()
		return s.inner.Watch(ctx, id, after, s.handle.inWatch(fn))
	})
}

// Publish is Publish of store.Store, with the faults of the plan.
func (s *Store) Publish(frame store.Frame) {
	_ = call0(s.handle, "Publish", func() error { // there is no result to return it in
		s.inner.Publish(frame)
		return nil
	})
}

// Close is Close of store.Store, with the faults of the plan.
func (s *Store) Close() error { return call0(s.handle, "Close", s.inner.Close) }

// Now is Now of store.Reader. It is counted, and cannot fail.
func (x readerWrapper) Now() time.Time {
	_, _ = x.handle.count("Now")
	return x.in.Now()
}

// Now is Now of store.Tx. It is counted, and cannot fail.
func (x txWrapper) Now() time.Time {
	_, _ = x.handle.count("Now")
	return x.in.Now()
}

// call0 makes one call that returns an error only, with the fault that the plan has for it.
func call0(h *handle, method string, do func() error) error {
	_, err := call1(h, method, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// call1 makes one call that returns a value and an error.
func call1[A any](h *handle, method string, do func() (A, error)) (A, error) {
	a, _, err := call2(h, method, func() (A, struct{}, error) {
		a, err := do()
		return a, struct{}{}, err
	})
	return a, err
}

// call2 makes one call that returns two values and an error. A call that fails by its fault returns
// zero values.
func call2[A, B any](h *handle, method string, do func() (A, B, error)) (A, B, error) {
	var noA A
	var noB B
	fault, err := h.before(method)
	if err != nil {
		return noA, noB, err
	}
	a, b, err := do()
	if failed := h.after(fault); failed != nil {
		return noA, noB, failed
	}
	return a, b, err
}
