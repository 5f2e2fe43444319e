package app

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestPackaging: what the packages, the unit and the container file name is there, and the server
// keeps its promises under them.
func TestPackaging(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for file, lines := range map[string][]string{
		"packaging/perdure.service": {
			"Type=notify", "KillMode=process", "User=perdure", "ExecStart=/usr/bin/perdure serve --data /var/lib/perdure",
			"NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=", "StateDirectory=perdure",
		},
		"packaging/Dockerfile": {
			"USER 10001:10001", `CMD ["perdure", "doctor", "--health"]`, `ENTRYPOINT ["tini", "--", "perdure"]`,
			`CMD ["serve", "--addr", "0.0.0.0:7373", "--expose"]`, "VOLUME /var/lib/perdure",
		},
		"packaging/sysusers.conf": {`u perdure - "Perdure" /var/lib/perdure`},
	} {
		text := "\n" + read(file)
		for _, line := range lines {
			if !regexp.MustCompile(`(?m)^(HEALTHCHECK .* )?` + regexp.QuoteMeta(line) + `$`).MatchString(text) {
				t.Errorf("%s has no line %s", file, line)
			}
		}
	}

	var packages struct {
		Contents []struct{ Src, Dst string }
		Scripts  map[string]string
	}
	if err := yaml.Unmarshal([]byte(read("packaging/nfpm.yaml")), &packages); err != nil {
		t.Fatal(err)
	}
	sources := packages.Scripts
	for _, one := range packages.Contents {
		sources[one.Dst] = one.Src
	}
	if len(sources) < 10 {
		t.Errorf("only %d files are packed", len(sources))
	}
	for to, from := range sources {
		if _, err := os.Stat(filepath.Join(module, from)); err != nil && !strings.HasPrefix(from, "$") {
			t.Errorf("%s: %v", to, err)
		}
	}
	for _, found := range regexp.MustCompile(`(?m)^# ([A-Z_]+)=`).FindAllStringSubmatch(read("packaging/perdure.env"), -1) {
		if name := found[1]; name != "PGPASSFILE" && !strings.Contains(read("docs/reference/cli.md"), "`"+name+"`") {
			t.Errorf("perdure.env has %s, which is no variable of ours", name)
		}
	}
}
