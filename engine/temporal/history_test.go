package temporal

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	common "go.temporal.io/api/common/v1"
	history "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// mostPayload is how many bytes a payload may have.
const mostPayload = 300

// liveHeartbeat is the heartbeat timeout of live tests, which record the histories.
const liveHeartbeat = time.Second

// payloadForm is what a payload may be: nothing, or an object, perhaps with one inside, of numbers,
// booleans, ids and names.
var payloadForm = regexp.MustCompile(`^(null|\{(("[a-z]+":(-?\d+|true|false|"[A-Za-z0-9_.-]{1,64}"|\{)|\})[,}]?)*)?$`)

// checkPayload wants a payload to have an allowed form and size.
func checkPayload(t *testing.T, where string, data []byte) {
	t.Helper()
	if len(data) > mostPayload {
		t.Errorf("%s: a payload has %d bytes, want at most %d", where, len(data), mostPayload)
	}
	if !payloadForm.Match(data) {
		t.Errorf("%s: the payload %s has more than ids, numbers and names", where, data)
	}
}

// payloads calls f with every payload in a message.
func payloads(m protoreflect.Message, f func(*common.Payload)) {
	if p, ok := m.Interface().(*common.Payload); ok {
		f(p)
		return
	}
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				if field.MapValue().Message() != nil {
					payloads(v.Message(), f)
				}
				return true
			})
		case field.Message() == nil:
		case field.IsList():
			for i := range v.List().Len() {
				payloads(v.List().Get(i).Message(), f)
			}
		default:
			payloads(v.Message(), f)
		}
		return true
	})
}

// replay runs the present workflows over a history.
func replay(h *history.History) error {
	r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{})
	if err != nil {
		return err
	}
	workflows{liveHeartbeat}.register(r)
	return r.ReplayWorkflowHistory(discardLogger(), h)
}

// TestReplay replays the histories that former versions have recorded. A change of the workflows
// that makes one of them fail would stop the workflows of an installation that is updated.
func TestReplay(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/histories/*/*.json")
	if err != nil || len(paths) < 20 {
		t.Fatalf("found %d recorded histories, error %v: run  scripts/temporal.sh record", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			t.Parallel()
			h := recorded(t, path)
			if err := replay(h); err != nil {
				t.Error(err)
			}
			for _, e := range h.GetEvents() {
				payloads(e.ProtoReflect(), func(p *common.Payload) { checkPayload(t, e.GetEventType().String(), p.GetData()) })
			}
		})
	}
}

// recorded reads a recorded history.
func recorded(t *testing.T, path string) *history.History {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h := &history.History{}
	if err := protojson.Unmarshal(text, h); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestReplayNotices tests that a replay fails if the workflow asks for something else.
func TestReplayNotices(t *testing.T) {
	t.Parallel()
	h := recorded(t, "testdata/histories/v1/a_session_is_driven_and_rests-session-s.json")
	for _, e := range h.GetEvents() {
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
			a.ActivityType.Name = runTaskActivity
		}
	}
	if err := replay(h); err == nil {
		t.Error("another activity is not noticed")
	}
}

// TestLongestPayloads tests the bound of payloads with the longest names and numbers.
func TestLongestPayloads(t *testing.T) {
	t.Parallel()
	const most = 1<<63 - 1
	home, queue := strings.Repeat("h", mostWord), strings.Repeat("q", mostCapability)
	id := strings.Repeat("i", 48)
	at := placement{Grant: most, Queue: queue, Home: home, Present: true, Evict: true, Absent: 99, Failures: 99}
	for _, value := range []any{
		sessionState{ID: id, Seq: 1e9, Seen: 1e9, Again: 1e13, placement: at}, runState{Task: id, Full: 99, placement: at},
		wake{Seq: most, Grant: most, Queue: queue, Home: home, Due: true}, workInput{ID: id, Grant: most, Evict: true, HomeGone: true},
		driveResult{workResult: workResult{Grant: most, Home: home, Present: true, Moved: true, Lost: true}, Seq: most, Again: most},
	} {
		data, err := encoded(value)
		if err != nil {
			t.Fatal(err)
		}
		checkPayload(t, "longest", data)
	}
	for most, name := range map[int]string{mostWord: home, mostCapability: queue} {
		if err := checkWord("name", name+"x", most); err == nil {
			t.Errorf("a name of more than %d characters is accepted", most)
		}
	}
}
