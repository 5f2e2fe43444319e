package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"strings"
)

// The limits of a whole unit: splitting a file, or embedding small interfaces into a wide one, does
// not make it smaller.
const (
	maxTotalMethods  = 25 // of an interface, with what it embeds
	maxStructMethods = 70 // of a type, over all files of its package
	maxConfigFields  = 20 // at the top of a configuration
)

// checkInterfaceTotal counts the methods of each interface with those of every interface of the
// module that it embeds. Interfaces of other modules count as one.
func checkInterfaceTotal(m *module) []finding {
	count := methodCounter{m, interfaces(m)}
	var found []finding
	for _, f := range written(m) {
		forEachType(f, func(spec *ast.TypeSpec) {
			n := count.total(declared{f, spec}, map[string]bool{})
			if n <= maxTotalMethods {
				return
			}
			found = append(found, finding{
				path: f.path, line: f.line(spec.Pos()), symbol: f.symbol(spec.Name.Name),
				message: fmt.Sprintf("interface %s has %d methods with those it embeds, the limit is %d: reach parts of it by accessors",
					spec.Name.Name, n, maxTotalMethods),
			})
		})
	}
	return found
}

// declared is one interface and the file that declares it.
type declared struct {
	file *file
	spec *ast.TypeSpec
}

// interfaces returns the interfaces of the module by folder and name.
func interfaces(m *module) map[string]declared {
	known := make(map[string]declared)
	for _, f := range m.files {
		forEachType(f, func(spec *ast.TypeSpec) {
			if _, ok := spec.Type.(*ast.InterfaceType); ok {
				known[f.folder+"."+spec.Name.Name] = declared{f, spec}
			}
		})
	}
	return known
}

// methodCounter counts the methods of interfaces with those that they embed.
type methodCounter struct {
	m     *module
	known map[string]declared
}

// total counts the methods of one interface. An interface in seen was counted before.
func (c methodCounter) total(of declared, seen map[string]bool) int {
	iface, ok := of.spec.Type.(*ast.InterfaceType)
	key := of.file.folder + "." + of.spec.Name.Name
	if !ok || seen[key] {
		return 0
	}
	seen[key] = true
	n := len(methodsOf(of.spec))
	for _, field := range iface.Methods.List {
		if len(field.Names) > 0 {
			continue
		}
		embedded, ok := c.known[c.m.typeKey(of.file, field.Type)]
		if !ok {
			n++
			continue
		}
		n += c.total(embedded, seen)
	}
	return n
}

// typeKey returns folder and name of a type of this module; it is empty for others.
func (m *module) typeKey(f *file, expr ast.Expr) string {
	if name, ok := expr.(*ast.Ident); ok {
		return f.folder + "." + name.Name
	}
	full := f.qualifiedType(expr)
	i := strings.LastIndex(full, ".")
	if i < 0 {
		return ""
	}
	rest, ours := strings.CutPrefix(full[:i], m.path)
	if !ours {
		return ""
	}
	return path.Clean("./"+rest) + full[i:]
}

// checkStructTotal counts the methods of each type over all files of its package. The steps of a
// suite and of tests are methods of their fixture, and do not count, and neither do accessors.
func checkStructTotal(m *module) []finding {
	known := interfaces(m)
	counts := make(map[string]int)
	where := make(map[string]finding)
	var order []string
	for _, f := range written(m) {
		if f.test || f.suite() {
			continue
		}
		for _, fn := range functions(f) {
			of := receiver(fn)
			if of == "" || m.accessor(f, known, fn.Type) {
				continue
			}
			key := f.folder + "." + of
			if counts[key] == 0 {
				order = append(order, key)
				where[key] = finding{path: f.folder, symbol: f.symbol(of)}
			}
			counts[key]++
		}
	}
	var found []finding
	for _, key := range order {
		if counts[key] <= maxStructMethods {
			continue
		}
		f := where[key]
		f.message = fmt.Sprintf("type %s has %d methods over all files, the limit is %d: split the idea into types of their own",
			key, counts[key], maxStructMethods)
		found = append(found, f)
	}
	return found
}

// checkConfigFields counts the fields of each struct whose name ends in Config. An embedded struct
// counts as one.
func checkConfigFields(m *module) []finding {
	var found []finding
	for _, f := range written(m) {
		forEachType(f, func(spec *ast.TypeSpec) {
			fields, ok := spec.Type.(*ast.StructType)
			if !ok || !strings.HasSuffix(spec.Name.Name, "Config") {
				return
			}
			n := 0
			for _, field := range fields.Fields.List {
				n += max(len(field.Names), 1)
			}
			if n <= maxConfigFields {
				return
			}
			found = append(found, finding{
				path: f.path, line: f.line(spec.Pos()), symbol: f.symbol(spec.Name.Name),
				message: fmt.Sprintf("%s has %d fields, the limit is %d: make named groups of them", spec.Name.Name, n, maxConfigFields),
			})
		})
	}
	return found
}
