import json, sys

v = json.load(open(sys.argv[1] + "/verdict.json"))
print(v["verdict"], v["severity"], [c["rank"] for c in v["culprits"]], v["onset_step"], v["topology"])
for f in v["findings"]:
    if f["severity"] in sys.argv[2:]:
        print(f["verdict"], f["severity"], [c["rank"] for c in f["culprits"]])
