package local_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
)

// TestEgressOfAProgram: private addresses are reached only where the program names them, each for
// its purpose.
func TestEgressOfAProgram(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	for name, c := range map[string]struct {
		cfg     local.EgressConfig
		purpose string
		want    bool
	}{
		"nothing listed":       {local.EgressConfig{}, "", false},
		"for tools":            {local.EgressConfig{Private: []string{host}}, "", true},
		"not for webhooks":     {local.EgressConfig{Private: []string{host}}, "webhook", false},
		"for webhooks":         {local.EgressConfig{Webhooks: []string{"127.0.0.1"}}, "webhook", true},
		"blocked by the list":  {local.EgressConfig{List: perdure.NetworkList{Blocked: []string{"*"}}, Private: []string{host}}, "", false},
		"not for tools either": {local.EgressConfig{Webhooks: []string{host}}, "", false},
	} {
		out, err := local.NewEgress(c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = out.Do(t.Context(), perdure.WebRequest{Method: http.MethodGet, URL: server.URL, Purpose: c.purpose})
		var denied *perdure.EgressError
		if c.want != (err == nil) || err != nil && !errors.As(err, &denied) {
			t.Errorf("%s: got %v, want it to be reached: %t", name, err, c.want)
		}
		out.Close()
	}
	if _, err := local.NewEgress(local.EgressConfig{Private: []string{"no host/"}}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("a wrong address: %v, want Invalid", err)
	}
}
