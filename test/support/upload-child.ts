// Stores an object that never ends, until it is killed. Arguments: endpoint, region, key id, secret, bucket, key.
import { S3Store } from "../../services/storage/s3-store.ts";

const [endpoint = "", region = "", accessKeyId = "", secretAccessKey = "", bucket = "", key = ""] =
  process.argv.slice(2);
async function* endless() {
  const block = Buffer.alloc(1024 ** 2);
  for (;;) yield block;
}
const store = new S3Store({ endpoint, region, accessKeyId, secretAccessKey });
await store.put({ bucket, key, contentType: "video/mp4" }, endless());
