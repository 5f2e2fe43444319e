package hostcall

import (
	"maps"
	"testing"

	"github.com/perdure/perdure"
)

// TestM04Forget: a call whose reply was reported is dropped; a later call with the same content is
// kept.
func TestM04Forget(t *testing.T) {
	t.Parallel()
	var hosts hostCalls
	of := hosts.of("session_1")
	of.calls["print"], of.calls["other"] = "call_2", "call_3"

	hosts.of("session_1").forget("print", "call_1")
	hosts.of("session_1").forget("other", "call_3")
	hosts.of("session_2").forget("print", "call_2")

	if want := map[string]perdure.CallID{"print": "call_2"}; !maps.Equal(of.calls, want) {
		t.Errorf("%v are kept, want %v", of.calls, want)
	}
}
