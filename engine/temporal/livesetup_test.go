//go:build live

package temporal

import (
	"slices"
	"testing"
)

// TestLiveSetup registers a namespace at a real server and examines it.
func TestLiveSetup(t *testing.T) {
	w := newWorld(t)
	c, o, err := Dial(DialOptions{Address: w.address, Namespace: "fresh", Log: discardLogger()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	if got := failing(t, Doctor(t.Context(), c, o.Namespace, Config{})); !slices.Equal(got, []string{"namespace"}) {
		t.Errorf("before setup, failed: %v, want the namespace", got)
	}
	if registered, err := Setup(t.Context(), c, o.Namespace); err != nil || !registered {
		t.Fatalf("registered %t, error %v", registered, err)
	}
	if registered, err := Setup(t.Context(), c, o.Namespace); err != nil || registered {
		t.Errorf("again: registered %t, error %v, want nothing changed", registered, err)
	}
	want := []string{"maintenance", "task queue perdure"}
	if got := failing(t, Doctor(t.Context(), c, o.Namespace, Config{})); !slices.Equal(got, want) {
		t.Errorf("without a worker, failed: %v, want %v", got, want)
	}

	w.worker("a", "h1")
	w.put(item{ID: "s", Seq: 1})
	w.done("s")
	cfg := liveConfig(w.client, "h1")
	cfg.Capabilities = []string{"gpu"}
	var got []string
	for !slices.Equal(got, []string{"task queue live/with/gpu"}) && t.Context().Err() == nil {
		got = failing(t, Doctor(t.Context(), w.client, "default", cfg)) // the worker comes to each of its queues in time
	}
}
