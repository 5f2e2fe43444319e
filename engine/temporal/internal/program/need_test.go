package program

import "testing"

// TestNeeds reads rules, and applies the first one that matches.
func TestNeeds(t *testing.T) {
	t.Parallel()
	o := &options{}
	for _, text := range []string{"tool:render_*=gpu", "label:tier=a=b=browser", "tool:*=any"} {
		var n need
		if err := n.UnmarshalText([]byte(text)); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		o.TemporalNeeds = append(o.TemporalNeeds, n)
	}
	for _, c := range []struct {
		tool   string
		labels map[string]string
		want   string
	}{
		{"render_scene", map[string]string{"tier": "a=b"}, "gpu"},
		{"bash", map[string]string{"tier": "a=b"}, "browser"},
		{"", map[string]string{"tier": "a=b"}, "browser"},
		{"bash", map[string]string{"tier": "a"}, "any"},
		{"", nil, ""}, // a session has no tool
	} {
		if got := o.capabilityOf(c.tool, c.labels); got != c.want {
			t.Errorf("tool %q of a session with labels %v needs %q, want %q", c.tool, c.labels, got, c.want)
		}
	}
	for _, text := range []string{"", "gpu", "tool:render", "tool:=gpu", "tool:render=", "tool:[=gpu", "label:tier=gpu", "label:=a=gpu", "agent:a=gpu"} {
		var n need
		if err := n.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %+v", text, n)
		}
	}
}
