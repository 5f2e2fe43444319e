package local_test

import (
	"context"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
)

// converse sends a message to a new session, lets the engine work until the session is idle, and
// folds its journal.
func converse(t *testing.T, cfg local.Config, agent perdure.Agent, text string) *perdure.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	eng, err := local.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(work) }()
	created, err := eng.Sessions().Create(ctx, agent)
	if err == nil {
		_, err = eng.Send(ctx, created.ID, perdure.Text(text))
	}
	if err == nil {
		err = eng.Sessions().WaitIdle(ctx, created.ID)
	}
	stop()
	if ran := <-ended; err != nil || ran != nil {
		t.Fatalf("got %v, and Run ended with %v", err, ran)
	}
	events, err := eng.Events(context.WithoutCancel(ctx), created.ID, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := perdure.NewSession(created.ID)
	for _, e := range events {
		if err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return s
}
