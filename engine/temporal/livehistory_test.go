//go:build live

package temporal

import (
	"os"
	"path/filepath"
	"strings"

	common "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	history "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/perdure/perdure"
)

// histories reads the histories of all workflows of the namespace.
func (w *world) histories() map[string]*history.History {
	w.t.Helper()
	all := map[string]*history.History{}
	ids := []string{w.starter.names.maintenance()}
	w.change(func(rows map[string]*item) {
		for id, r := range rows {
			if ids = append(ids, w.starter.names.session(perdure.SessionID(id))); r.Task {
				ids[len(ids)-1] = w.starter.names.run(perdure.TaskID(id))
			}
		}
	})
	for _, id := range ids {
		h := &history.History{}
		events := w.client.GetWorkflowHistory(w.t.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			if err != nil {
				w.t.Fatalf("history of %s: %v", id, err)
			}
			h.Events = append(h.Events, e)
		}
		all[id] = h
	}
	return all
}

// checkHistories wants every payload of the world to be of an allowed form, and every history to
// replay.
func (w *world) checkHistories() {
	w.t.Helper()
	for id, h := range w.histories() {
		for _, e := range h.GetEvents() {
			payloads(e.ProtoReflect(), func(p *common.Payload) {
				if string(p.GetMetadata()["encoding"]) != "json/protobuf" { // the SDK's own, in markers
					checkPayload(w.t, id+" "+e.GetEventType().String(), p.GetData())
				}
			})
			if text, err := protojson.Marshal(e); err != nil || strings.Contains(string(text), secretText) {
				w.t.Errorf("%s: an event has the text of an error, or cannot be read (%v): %s", id, err, text)
			}
		}
		if err := replay(h); err != nil {
			w.t.Errorf("replay %s: %v", id, err)
		}
	}
}

// record writes the histories of a world to testdata when it is asked to.
func (w *world) record(name string) {
	w.t.Helper()
	if os.Getenv("PERDURE_TEMPORAL_RECORD") == "" {
		return
	}
	for id, h := range w.histories() {
		text, err := protojson.Marshal(h)
		if err != nil {
			w.t.Fatal(err)
		}
		path := filepath.Join("testdata", "histories", "v1", name+"-"+strings.ReplaceAll(strings.TrimPrefix(id, "live/"), "/", "-")+".json")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
}
