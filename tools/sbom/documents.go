package main

import (
	"path"
	"regexp"
	"strings"
)

// object is one of JSON; its fields are written in the order of their names.
type object = map[string]any

// cycloneDX is the program as CycloneDX 1.6 has it. It has no serial number,
// since that would have to be drawn. What the linker wrote does not say who
// asked for which module, so all hang on the program.
func (p *program) cycloneDX() any {
	main := p.component("application")
	main["hashes"] = []object{{"alg": "SHA-256", "content": p.sha256}}
	built := []object{}
	for _, s := range p.settings {
		built = append(built, object{"name": "build:" + s[0], "value": s[1]})
	}
	main["properties"] = built
	components, refs := []object{}, []string{}
	for _, d := range p.parts {
		c := d.component("library")
		if d.sum != "" {
			c["properties"] = []object{{"name": "go.sum", "value": d.sum}}
		}
		components = append(components, c)
		refs = append(refs, d.purl())
	}
	return object{
		"$schema":      "http://cyclonedx.org/schema/bom-1.6.schema.json",
		"bomFormat":    "CycloneDX",
		"specVersion":  "1.6",
		"version":      1,
		"metadata":     object{"timestamp": p.at, "component": main},
		"components":   components,
		"dependencies": []object{{"ref": p.purl(), "dependsOn": refs}},
	}
}

func (p part) component(kind string) object {
	c := object{"type": kind, "bom-ref": p.purl(), "name": p.path, "version": p.version, "purl": p.purl()}
	switch {
	case strings.Contains(p.license, " "):
		c["licenses"] = []object{{"expression": p.license}}
	case p.license != "":
		c["licenses"] = []object{{"license": object{"id": p.license}}}
	}
	return c
}

// spdx is the program as SPDX 2.3 has it.
func (p *program) spdx() any {
	name := path.Base(p.path)
	main := p.entry("Program")
	main["checksums"] = []object{{"algorithm": "SHA256", "checksumValue": p.sha256}}
	main["primaryPackagePurpose"] = "APPLICATION"
	packages := []object{main}
	relations := []object{{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-Program"}}
	for _, d := range p.parts {
		e := d.entry(d.path + "-" + d.version)
		if d.sum != "" {
			e["comment"] = "go.sum: " + d.sum
		}
		packages = append(packages, e)
		relations = append(relations, object{"spdxElementId": "SPDXRef-Program", "relationshipType": "CONTAINS", "relatedSpdxElement": e["SPDXID"]})
	}
	return object{
		"spdxVersion": "SPDX-2.3",
		"dataLicense": "CC0-1.0",
		"SPDXID":      "SPDXRef-DOCUMENT",
		"name":        name + " " + p.version,
		// One of its own for each program that was ever built, as it has to be.
		"documentNamespace": "https://" + p.path + "/spdx/" + p.sha256,
		"creationInfo":      object{"created": p.at, "creators": []string{"Tool: " + p.path + "/tools/sbom"}},
		"packages":          packages,
		"relationships":     relations,
	}
}

var notInID = regexp.MustCompile(`[^A-Za-z0-9.]+`)

func (p part) entry(id string) object {
	return object{
		"SPDXID":           "SPDXRef-" + notInID.ReplaceAllString(id, "-"),
		"name":             p.path,
		"versionInfo":      p.version,
		"downloadLocation": "NOASSERTION",
		"filesAnalyzed":    false,
		"licenseConcluded": "NOASSERTION",
		"licenseDeclared":  orNone(p.license, "NOASSERTION"),
		"copyrightText":    "NOASSERTION",
		"externalRefs":     []object{{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": p.purl()}},
	}
}
