package sessionport_test

import (
	"fmt"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/tool"
)

// TestTokenStaysMasked: a token that a running call was given is masked in what the call reports,
// however many other sessions run meanwhile. Afterwards nothing keeps it, neither here nor in the
// mask of the logs.
func TestTokenStaysMasked(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		cfg := connected(w, keyring(w.T))
		open := sessionport.New(cfg)
		busy := func() {
			for i := range 300 {
				open(perdure.SessionID(fmt.Sprintf("session_%032d", i)), tool.Call{}).SecretMasker.Mask("busy")
			}
		}
		ports := open(w.session(), tool.Call{})
		unpin := func() {}
		if p, ok := ports.SecretMasker.(interface{ Pin() func() }); ok {
			unpin = p.Pin()
		}
		stream := ports.SecretMasker.Stream()
		busy()
		for range 3 {
			if _, err := ports.Connections.Token(w.Context(), "github"); err != nil {
				w.Fatal(err)
			}
		}
		busy()

		if got := ports.SecretMasker.Mask("it is " + tokCanary); got == "it is "+tokCanary {
			w.Error("the token is not masked")
		}
		if got := string(append(stream.Feed([]byte("it is "+tokCanary)), stream.Flush()...)); got == "it is "+tokCanary {
			w.Error("the token is not masked in a stream that was open before")
		}
		if !ports.SecretMasker.Any() || cfg.LogMask.Mask(tokCanary) == tokCanary {
			w.Error("the token is not masked in logs")
		}
		unpin()
		busy()
		if cfg.LogMask.Mask(tokCanary) != tokCanary {
			w.Error("the mask of the logs keeps the token of a session that is over")
		}
	})
}
