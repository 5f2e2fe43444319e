package temporal

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

// TestConfig tests that a configuration that cannot work is refused, and that the error names the
// field.
func TestConfig(t *testing.T) {
	t.Parallel()
	c, _, err := Dial(DialOptions{Address: "127.0.0.1:1", Log: discardLogger()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tests := map[string]struct {
		cfg  Config
		want string // in the error; empty: it is accepted
	}{
		"no client":             {Config{}, "Client"},
		"defaults":              {Config{Client: c}, ""},
		"a slash in the prefix": {Config{Client: c, Prefix: "a/b"}, "prefix"},
		"a long capability":     {Config{Client: c, Capabilities: []string{strings.Repeat("x", 33)}}, "capability"},
		"a space in the home":   {Config{Client: c, Home: "a b"}, "home"},
		"a short heartbeat":     {Config{Client: c, Heartbeat: time.Millisecond}, "heartbeat timeout"},
		"a negative time":       {Config{Client: c, Drain: -1}, "Drain"},
		"no activities":         {Config{Client: c, Activities: -1}, "Activities"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New(test.cfg)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.want != "" && (!errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want Invalid and %s", err, test.want)
			}
		})
	}
}

// TestDial tests where the address and the namespace come from.
func TestDial(t *testing.T) {
	t.Setenv("TEMPORAL_CONFIG_FILE", t.TempDir()+"/none.toml")
	t.Setenv("TEMPORAL_ADDRESS", "there:7233")
	t.Setenv("TEMPORAL_NAMESPACE", "ours")

	c, o, err := Dial(DialOptions{Log: discardLogger()})
	if err != nil || o.HostPort != "there:7233" || o.Namespace != "ours" {
		t.Fatalf("options %+v, error %v, want those of the environment", o, err)
	}
	c.Close()
	c, o, err = Dial(DialOptions{Address: "here:1", Namespace: "mine", Log: discardLogger()})
	if err != nil || o.HostPort != "here:1" || o.Namespace != "mine" {
		t.Errorf("options %+v, error %v, want those given", o, err)
	}
	c.Close()

	t.Setenv("TEMPORAL_TLS_CLIENT_CERT_PATH", "/nowhere")
	if _, _, err := Dial(DialOptions{Log: discardLogger()}); !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), "TEMPORAL_") {
		t.Errorf("error %v, want Invalid and where to correct it", err)
	}

	broken := t.TempDir() + "/temporal.toml"
	if err := os.WriteFile(broken, []byte("= nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEMPORAL_TLS_CLIENT_CERT_PATH", "")
	t.Setenv("TEMPORAL_CONFIG_FILE", broken)
	if _, _, err := Dial(DialOptions{Log: discardLogger()}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("error %v, want Invalid", err)
	}
}

// TestVersions tests which servers are new enough.
func TestVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"1.32.1": true, "1.25.0": true, "1.24.2": false, "1.9.9": false, "cloud": true, "": true, "2.0.0": true} {
		if got := recent(version); got != want {
			t.Errorf("recent(%q) = %t", version, got)
		}
	}
}

// TestSkew tests what two clocks tell of each other.
func TestSkew(t *testing.T) {
	t.Parallel()
	before := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	after := before.Add(time.Second)
	for at, want := range map[time.Duration]time.Duration{0: 0, time.Second: 0, -time.Hour: -time.Hour, time.Hour: time.Hour - time.Second} {
		if got := skewOf(before, before.Add(at), after); got != want {
			t.Errorf("skew of %s = %s, want %s", at, got, want)
		}
	}
}

// failing returns the names of the checks that failed. Each has to say what to do.
func failing(t *testing.T, checks []Check) []string {
	t.Helper()
	var names []string
	for _, c := range checks {
		if !c.OK {
			names = append(names, c.Name)
		}
		if c.OK != (c.Fix == "") || c.Detail == "" {
			t.Errorf("check %+v: want a detail, and what to do where it failed", c)
		}
	}
	return names
}

// TestDoctorOffline tests that the doctor stops at a connection that there is not.
func TestDoctorOffline(t *testing.T) {
	t.Parallel()
	c, o, err := Dial(DialOptions{Address: "127.0.0.1:1", Log: discardLogger()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := failing(t, Doctor(t.Context(), c, o.Namespace, Config{})); !slices.Equal(got, []string{"connection"}) {
		t.Errorf("failed: %v, want the connection only", got)
	}
}
