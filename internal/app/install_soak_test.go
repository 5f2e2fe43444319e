//go:build soak

package app

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/modproxy"
)

// TestGoInstall installs the program as the README says, from a module proxy made of the working
// tree, outside the repository, and runs it. Only this detects a go.mod with exclude or replace
// lines.
func TestGoInstall(t *testing.T) {
	t.Parallel()
	proxy := modproxy.New(t, module)
	bin := t.TempDir()

	proxy.Go(t, t.TempDir(), []string{"GOBIN=" + bin, "GOFLAGS="}, "install", modproxy.Path+"/cmd/perdure@"+proxy.Version)

	out, err := exec.Command(filepath.Join(bin, "perdure"), "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "perdure") {
		t.Errorf("perdure version: %v\n%s", err, out)
	}
	t.Logf("installed: %s", bytes.TrimSpace(out))
}
