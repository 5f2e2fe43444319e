package app

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
)

// TestModelOptions parses the values of --model-option.
func TestModelOptions(t *testing.T) {
	t.Parallel()
	all, err := readModelOptions([]string{
		"stream_options=off", "openai.stream=false", " max_tokens=100 ", "anthropic.max_tokens=200", "openai.max_tokens_field=none", "first_token_timeout=20m", "openai.max_tools=64",
	})
	if err != nil {
		t.Fatal(err)
	}
	for provider, want := range map[string]modelSettings{
		providerOpenAI:    {omitUsage: true, whole: true, maxTokens: 100, maxTokensField: "none", firstToken: 20 * time.Minute, maxTools: 64},
		providerAnthropic: {omitUsage: true, maxTokens: 200, firstToken: 20 * time.Minute},
	} {
		if diff := cmp.Diff(want, all.settings(provider), cmp.AllowUnexported(modelSettings{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", provider, diff)
		}
	}
	for text, want := range map[string]string{
		"stream": "NAME=VALUE", "": "NAME=VALUE", "speed=9": "first_token_timeout", "scripted.max_tokens=1": "openai and anthropic", "anthropic.stream=false": "only openai",
		"stream=maybe": "true or false", "max_tokens=0": "greater than 0", "max_tools=many": "number", "max_tokens_field=limit": "max_completion_tokens", "first_token_timeout=20": "for instance 20m",
	} {
		if _, err := readModelOptions([]string{text}); !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}

// TestModelOptionsReachTheModel: an option works where the user types: as a flag, in the
// environment and in the user's file.
func TestModelOptionsReachTheModel(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	last := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		last = string(text)
		mu.Unlock()
		fmt.Fprint(w, `{"choices":[{"index":0,"message":{"content":"Hello"},"finish_reason":"stop"}]}`)
	}))
	t.Cleanup(server.Close)
	p := newPlace(t, map[string]string{"config/perdure/config.yaml": "model-option: [max_tokens=7]\n"})
	run := func(env []string, args ...string) string {
		t.Helper()
		p.env = env
		code, out, talk := p.told(append(args, "run", "--model", "openai:m", "--base-url", server.URL+"/v1", "go")...)
		if code != 0 || !strings.Contains(out, "Hello") {
			t.Errorf("%v %v: got exit code %d, %s%s", env, args, code, out, talk)
		}
		mu.Lock()
		defer mu.Unlock()
		return last
	}
	config := "XDG_CONFIG_HOME=" + p.work + "/config"
	for name, c := range map[string]struct {
		sent, want string
	}{
		"flag":        {run(nil, "--model-option", "openai.stream_options=false"), `"stream":true}`},
		"two flags":   {run(nil, "--model-option", "stream=false", "--model-option", "max_tokens=9"), `"max_tokens":9,"stream":false}`},
		"environment": {run([]string{"PERDURE_MODEL_OPTIONS=max_tokens=8,max_tokens_field=max_completion_tokens"}), `"max_completion_tokens":8`},
		"file":        {run([]string{config}), `"max_tokens":7`},
	} {
		if !strings.Contains(c.sent, c.want) {
			t.Errorf("%s: got %s, want %s", name, c.sent, c.want)
		}
	}
	p.env = nil
	if code, _, talk := p.told("--model-option", "speed=9", "run", "--model", "openai:m", "--base-url", server.URL+"/v1", "go"); code != 2 || !strings.Contains(talk, "first_token_timeout") {
		t.Errorf("an unknown option: got exit code %d, %s", code, talk)
	}
}
