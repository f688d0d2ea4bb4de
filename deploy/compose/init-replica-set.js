// Run by mongosh. Makes three members one replica set, and the product's user with rights on its database alone.
// Repeating it changes nothing.
const { MONGO_ROOT_PASSWORD, MONGO_PASSWORD } = process.env;
const admin = new Mongo(
  `mongodb://root:${encodeURIComponent(MONGO_ROOT_PASSWORD)}@mongo-1/admin?directConnection=true`,
).getDB("admin");

const isPrimary = () => admin.hello().isWritablePrimary;
try {
  admin.adminCommand({ replSetGetStatus: 1 });
} catch (error) {
  if (error.codeName !== "NotYetInitialized") throw error;
  const members = ["mongo-1", "mongo-2", "mongo-3"].map((name, index) => ({
    _id: index,
    host: `${name}:27017`,
    priority: name === "mongo-1" ? 2 : 1,
  }));
  admin.adminCommand({ replSetInitiate: { _id: "reelmesh", members } });
}
for (let n = 0; n < 60 && !isPrimary(); n += 1) sleep(1000);

const set = new Mongo(
  `mongodb://root:${encodeURIComponent(MONGO_ROOT_PASSWORD)}@mongo-1,mongo-2,mongo-3/admin?replicaSet=reelmesh`,
);
const own = set.getDB("reelmesh");
const user = {
  pwd: MONGO_PASSWORD,
  roles: [{ role: "readWrite", db: "reelmesh" }],
};
if (own.getUser("reelmesh")) own.updateUser("reelmesh", user);
else own.createUser({ user: "reelmesh", ...user });
print("the replica set is ready");
